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

A parser in Rust writes HTML, whose tags are counted:

    "# Plan" … "- cheap"   →   <h1>Plan</h1> … <ul><li>cheap</li></ul>   →   h1 = heading, li in ul = unordered item
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from rubrank._plain import join_surrogates
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


# The marker of each tag; items of lists are told apart by the list that they stand in.
_MARKER_OF_TAG = {
    **{f"h{level}": "heading" for level in "123456"},
    "strong": "bold",
    "em": "italic",
    "tr": "table_row",
    "pre": "code_block",
    "code": "inline_code",
    "blockquote": "blockquote",
    "hr": "horizontal_rule",
    "a ": "link",  # with the blank of `<a href=…>`
}
# How tags begin in the parser's HTML: those above, of which `h[1-6r]` is h1 … h6 and hr; both ends of lists, `<ol`,
# `</ol`, `<ul`, `</ul`; and items, `<li`. Some other tags begin in the same way, and never occur: the parser writes no
# `<track>` or `<embed>`, and those of raw HTML are in capitals.
_TAG = re.compile("<(h[1-6r]|strong|em|tr|pre|code|blockquote|a |/?[ou]l|li)")

# The beginnings of tags of raw HTML that would be counted: `<b`, `</o` of `</ol>`, `</u` of `</ul>`. Other closing tags
# must stay: the parser needs `</pre>` and `</script>` in lower case to find the end of the block.
_RAW_TAG = re.compile("<[a-z]|</[ou]")


@only_our_errors
def markdown_counts(texts: Texts) -> NDArray[np.int64]:
    """Count how often each of `MARKERS` occurs in each text.

    Returns an array (…, 11); the leading dimensions are those of the texts.
    """
    flat, shape = flatten_texts("markdown_counts", texts)
    return _count_markers(flat).reshape(*shape, len(MARKERS))


@only_our_errors
def markdown_density(texts: Texts, per: Per = "line") -> NDArray[np.float64]:
    """Return markers (…, 11) per line that is not blank, or per 100 words (`count_words`); 0 for an empty text."""
    flat, shape = flatten_texts("markdown_density", texts)
    # A text of markers alone has no words: a size of at least one line, or one word, keeps its density finite.
    if per == "line":
        line_counts = [sum(1 for line in text.splitlines() if line.strip()) for text in flat]
        sizes = np.maximum(np.array(line_counts, dtype=float), 1.0)
    elif per == "100 words":
        sizes = np.maximum(np.array([count_words(text) / 100 for text in flat]), 0.01)
    else:
        raise UnknownName.of("markdown_density", "per", per, get_args(Per))
    return (_count_markers(flat) / sizes[:, None]).reshape(*shape, len(MARKERS))


def _count_markers(texts: list[str]) -> NDArray[np.int64]:
    """Return how often each marker occurs in each text, (texts, 11)."""
    rows = np.zeros((len(texts), len(MARKERS)), dtype=np.int64)
    for row, text in zip(rows, texts, strict=True):
        # Raw HTML passes through the parser unchanged, so its tags would be counted, too. In capitals it is parsed the
        # same, and the parser itself writes lower case only: every tag in lower case comes from Markdown.
        #
        #     text        "**a** <em>b</em>"
        #     changed     "**a** <Em>b</em>"
        #     html        "<p><strong>a</strong> <Em>b</em></p>"      one bold, no italics
        if "<" in text:
            text = _RAW_TAG.sub(lambda tag: tag[0].upper(), text)
        text = limit_depth(text)
        try:
            html = PARSER.html(text)
        except UnicodeEncodeError:  # lone surrogates
            html = PARSER.html(join_surrogates(text))

        counts: Counter[str] = Counter()
        open_lists = []
        for tag in _TAG.findall(html):
            if tag in ("ol", "ul"):
                open_lists.append(tag)
            elif tag in ("/ol", "/ul"):
                open_lists.pop()
            elif tag == "li":
                counts["ordered_item" if open_lists[-1] == "ol" else "unordered_item"] += 1
            else:
                counts[_MARKER_OF_TAG[tag]] += 1
        counts["inline_code"] -= counts["code_block"]  # a code block is <pre><code>
        row[:] = [counts[marker] for marker in MARKERS]
    return rows
