"""The tags in the HTML of many texts, counted by compiled code.

    count_tags(html, ends, kinds, counts, …)        what `markdown._count_tags` counts, with numpy

Loading numba takes half a second: `markdown` comes here only when it is loaded already.
"""

from __future__ import annotations

from typing import Any

from rubrank._jit import jit

_LESS = ord("<")


@jit
def count_tags(html: Any, ends: Any, kinds: Any, counts: Any, open_ordered: int, ordered: int) -> None:
    """Add up the kinds of tags of every text. From `open_ordered` on: <ol>, <ul>, the end of a list, an item."""
    open_unordered, close, item = open_ordered + 1, open_ordered + 2, open_ordered + 3
    lists, start = [False] * 64, 0
    for text in range(ends.size):
        depth, end, i = 0, ends[text], start - 1
        for char in html[start:end]:
            i += 1
            if char != _LESS:
                continue
            kind = kinds[html[i + 1], html[i + 2]]
            if kind == open_ordered or kind == open_unordered:  # noqa: SIM109 - compiled
                if depth == len(lists):
                    lists.append(False)
                lists[depth] = kind == open_ordered  # items belong to the innermost list
                depth += 1
            elif kind == close:
                depth -= 1
            elif kind == item:
                counts[text, ordered if lists[depth - 1] else ordered + 1] += 1
            else:
                counts[text, kind] += 1
        start = end
