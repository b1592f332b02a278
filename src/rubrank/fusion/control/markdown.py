"""How much Markdown a response uses: eleven markers, counted as a reader would see them.

    >>> markdown_counts(["# Plan\\n\\n- **fast**\\n- cheap"])[0][:8]
    array([1, 1, 0, 0, 0, 0, 0, 2])

Texts are parsed as CommonMark with tables, so a `#` in a code fence is not a heading, and `2 * 3 * 4` has no italics.

    heading          `# a`, or a line underlined by `===` or `---`
    bold, italic     `**a**`, `*a*` (also with `_`); `***a***` is one of each
    table_row        a row of a table, its header row too; the delimiter line `|---|` is none
    code_block       fenced or indented
    inline_code      `a` in backticks
    ordered_item, unordered_item    every item, by the kind of the list it stands in, at any depth
    blockquote       every quote, nested ones too; a quote of many lines is one
    horizontal_rule  `---`, `***`, `___` on a line of its own
    link             `[a](b)`, `[a]` with a definition, `<https://a.b>`; a bare address is none

Not counted: images and the markers in their descriptions; raw HTML (`<b>`, `<h1>`), though Markdown between its tags
is. Not recognised: front matter (it reads as a rule and a heading), mathematics (`$x_{i}*y*$` may hold italics),
strikethrough, footnotes, task boxes.

For speed, a parser in Rust writes the HTML of many responses into one buffer. NumPy then finds all `<` at once and
recognises each tag by the two characters that follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rubrank._plain import encodable
from rubrank.errors import UnknownName, only_our_errors
from rubrank.fusion.control.attribute import Texts, flatten_texts
from rubrank.texts.markdown import PARSER, limit_depth
from rubrank.texts.words import count_words

MARKERS = (
    "heading",
    "bold",
    "italic",
    "table_row",
    "code_block",
    "inline_code",
    "ordered_item",
    "unordered_item",
    "blockquote",
    "horizontal_rule",
    "link",
)

Per = Literal["line", "100 words"]


# Kinds of tags, and the two characters after `<` that identify each. The tags of lists are not counted themselves; they
# decide whether an item is ordered.
_HEADING, _BOLD, _ITALIC, _ROW, _BLOCK, _CODE, _ORDERED, _UNORDERED, _QUOTE, _RULE, _LINK = range(
    len(MARKERS)
)
_OPEN_ORDERED, _OPEN_UNORDERED, _CLOSE_LIST, _ITEM, _OTHER = range(len(MARKERS), len(MARKERS) + 5)
_TAGS = {
    **{f"h{level}": _HEADING for level in "123456"},
    "st": _BOLD,  # strong
    "em": _ITALIC,
    "tr": _ROW,
    "pr": _BLOCK,  # pre
    "co": _CODE,
    "bl": _QUOTE,
    "hr": _RULE,
    "a ": _LINK,
    "ol": _OPEN_ORDERED,
    "ul": _OPEN_UNORDERED,
    "/o": _CLOSE_LIST,
    "/u": _CLOSE_LIST,
    "li": _ITEM,
}
_KIND = np.full((256, 256), _OTHER, dtype=np.uint8)
for _tag, _kind in _TAGS.items():
    _KIND[ord(_tag[0]), ord(_tag[1])] = _kind

# Bytes of HTML that are rendered before they are counted, so that a batch of any size needs little memory.
_BUFFER = 1 << 20

# Tags of raw HTML that would be counted. Other closing tags are not: the parser needs `</pre>` and `</script>` in lower
# case to find the end of the block.
_RAW_TAG = re.compile("<[a-z]|</[ou]")


@only_our_errors
def markdown_counts(texts: Texts) -> NDArray[np.int64]:
    """How often each of `MARKERS` occurs in each text: an array (…, 11) in the leading shape of the texts."""
    flat, shape = flatten_texts("markdown_counts", texts)
    return _counts(flat).reshape(*shape, len(MARKERS))


@only_our_errors
def markdown_density(texts: Texts, per: Per = "line") -> NDArray[np.float64]:
    """Markers per line that is not blank, or per 100 words (those of `count_words`); 0 for an empty text."""
    flat, shape = flatten_texts("markdown_density", texts)
    if per == "line":
        size = np.array(
            [sum(1 for line in text.splitlines() if line.strip()) for text in flat], dtype=float
        )
    elif per == "100 words":
        size = np.array([count_words(text) / 100 for text in flat])
    else:
        raise UnknownName.of("markdown_density", "per", per, ("line", "100 words"))
    # A text of markers alone has no words: a floor of one line, or one word, keeps its density finite.
    floor = 1.0 if per == "line" else 0.01
    return (_counts(flat) / np.maximum(size, floor)[:, None]).reshape(*shape, len(MARKERS))


def _counts(texts: list[str]) -> NDArray[np.int64]:
    """Markers (texts, 11)."""
    chunks = [_count_tags(html, ends) for html, ends in _render(texts)]
    return np.concatenate([np.zeros((0, len(MARKERS)), dtype=np.int64), *chunks])


def _render(texts: Iterable[str]) -> Iterator[tuple[NDArray[np.uint8], list[int]]]:
    """Buffers of HTML, each with the positions where its texts end."""
    buffer = BytesIO()
    ends: list[int] = []
    for text in texts:
        # Raw HTML passes through the parser unchanged. In capitals it is parsed the same, and the renderer itself
        # writes lower case only. So every `<` followed by a lower-case letter in the output comes from Markdown.
        if "<" in text:
            text = _RAW_TAG.sub(lambda tag: tag[0].upper(), text)
        text = limit_depth(text)
        try:
            PARSER.write_html(text, buffer)
        except UnicodeEncodeError:  # lone surrogates; raised before anything is written
            PARSER.write_html(encodable(text), buffer)
        buffer.write(b"\n\n")  # two characters may be read after any `<`
        ends.append(buffer.tell())
        if ends[-1] >= _BUFFER:
            yield np.frombuffer(buffer.getbuffer(), dtype=np.uint8), ends
            buffer = BytesIO()
            ends = []
    if ends:
        yield np.frombuffer(buffer.getbuffer(), dtype=np.uint8), ends


def _count_tags(html: NDArray[np.uint8], ends: list[int]) -> NDArray[np.int64]:
    """Markers (texts, 11) in the concatenated HTML of texts that end at `ends`."""
    positions = np.flatnonzero(html == ord("<"))
    kind = _KIND[html[positions + 1], html[positions + 2]]
    _assign_items(kind)
    text = np.repeat(np.arange(len(ends)), np.diff(np.searchsorted(positions, ends), prepend=0))
    counts = np.bincount(text * (_OTHER + 1) + kind, minlength=len(ends) * (_OTHER + 1))
    counts = counts.reshape(len(ends), _OTHER + 1)[:, : len(MARKERS)]
    counts[:, _CODE] -= counts[:, _BLOCK]  # a code block is <pre><code>
    return counts


def _assign_items(kind: NDArray[np.uint8]) -> None:
    """Turn every list item, in place, into an item of the innermost list that is open there."""
    positions = np.flatnonzero((kind >= _OPEN_ORDERED) & (kind <= _ITEM))
    tag = kind[positions]
    depth = np.cumsum((tag <= _OPEN_UNORDERED).astype(np.int64) - (tag == _CLOSE_LIST))
    # Sorted by depth, and in reading order within a depth, an item belongs to the last list that opened before it.
    order = np.flatnonzero(tag != _CLOSE_LIST)
    order = order[np.argsort(depth[order], kind="stable")]
    positions = positions[order]
    tag = tag[order]
    is_item = tag == _ITEM
    opening = np.maximum.accumulate(np.where(is_item, 0, np.arange(len(tag))))
    is_ordered = tag[opening[is_item]] == _OPEN_ORDERED
    kind[positions[is_item]] = np.where(is_ordered, _ORDERED, _UNORDERED)
