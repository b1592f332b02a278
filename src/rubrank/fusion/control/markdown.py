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
recognises each tag by the two characters that follow:

    "# Plan" … "- cheap"   →   <h1>Plan</h1> … <ul><li>cheap</li></ul>   →   h1 = heading, li in ul = unordered item
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from io import BytesIO
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


# Kinds of tags. The first eleven are the numbers of the MARKERS. The others are not counted themselves: the tags of
# lists decide whether an item is ordered.
_HEADING, _BOLD, _ITALIC, _ROW, _BLOCK, _CODE, _ORDERED, _UNORDERED, _QUOTE, _RULE, _LINK = range(
    len(MARKERS)
)
_OPEN_ORDERED, _OPEN_UNORDERED, _CLOSE_LIST, _ITEM, _OTHER = range(len(MARKERS), len(MARKERS) + 5)
# The two characters after `<` that identify each kind.
_TAGS = {
    **{f"h{level}": _HEADING for level in "123456"},
    "st": _BOLD,  # strong
    "em": _ITALIC,
    "tr": _ROW,
    "pr": _BLOCK,  # pre
    "co": _CODE,  # code
    "bl": _QUOTE,  # blockquote
    "hr": _RULE,
    "a ": _LINK,
    "ol": _OPEN_ORDERED,
    "ul": _OPEN_UNORDERED,
    "/o": _CLOSE_LIST,
    "/u": _CLOSE_LIST,
    "li": _ITEM,
}
# The kind of a tag by the codes of these two characters.
_KIND_OF_BYTES = np.full((256, 256), _OTHER, dtype=np.uint8)
for _tag, _kind in _TAGS.items():
    _KIND_OF_BYTES[ord(_tag[0]), ord(_tag[1])] = _kind

# Bytes of HTML that are rendered before they are counted, so that a batch of any size needs little memory.
_BUFFER_BYTES = 1 << 20

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
    chunks = [_count_tags(html, ends) for html, ends in _render_html(texts)]
    no_texts = np.zeros((0, len(MARKERS)), dtype=np.int64)
    return np.concatenate([no_texts, *chunks])


def _render_html(texts: Iterable[str]) -> Iterator[tuple[NDArray[np.uint8], list[int]]]:
    """Yield buffers with the HTML of consecutive texts, each with the positions where its texts end."""
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
            PARSER.write_html(join_surrogates(text), buffer)
        buffer.write(b"\n\n")  # two characters may be read after any `<`
        ends.append(buffer.tell())
        if ends[-1] >= _BUFFER_BYTES:
            yield np.frombuffer(buffer.getbuffer(), dtype=np.uint8), ends
            buffer = BytesIO()
            ends = []
    if ends:
        yield np.frombuffer(buffer.getbuffer(), dtype=np.uint8), ends


def _count_tags(html: NDArray[np.uint8], ends: list[int]) -> NDArray[np.int64]:
    """Count the markers (texts, 11) in the concatenated HTML of texts that end at `ends`."""
    tag_positions = np.flatnonzero(html == ord("<"))
    kinds = _KIND_OF_BYTES[html[tag_positions + 1], html[tag_positions + 2]]
    _assign_items(kinds)
    tags_per_text = np.diff(np.searchsorted(tag_positions, ends), prepend=0)
    text_of_tag = np.repeat(np.arange(len(ends)), tags_per_text)
    # One bin for each text and kind, so that a single bincount does all texts.
    kind_count = _OTHER + 1
    bins = text_of_tag * kind_count + kinds
    counts = np.bincount(bins, minlength=len(ends) * kind_count)
    counts = counts.reshape(len(ends), kind_count)[:, : len(MARKERS)]
    counts[:, _CODE] -= counts[:, _BLOCK]  # a code block is <pre><code>
    return counts


def _assign_items(kinds: NDArray[np.uint8]) -> None:
    """Change the kind of every list item, in place, to ordered or unordered, as the innermost list that is open there.

    <ol> <li> <ul> <li> </ul> <li> </ol>      depths 1 1 2 2 1 1 0: the first and the last item belong to the <ol>
    """
    is_list_tag = (kinds >= _OPEN_ORDERED) & (kinds <= _ITEM)
    positions = np.flatnonzero(is_list_tag)
    tags = kinds[positions]
    is_opening = tags <= _OPEN_UNORDERED
    depths = np.cumsum(is_opening.astype(np.int64) - (tags == _CLOSE_LIST))
    # Sorted by depth, and in reading order within a depth, an item belongs to the last list that opened before it.
    order = np.flatnonzero(tags != _CLOSE_LIST)
    order = order[np.argsort(depths[order], kind="stable")]
    positions = positions[order]
    tags = tags[order]
    is_item = tags == _ITEM
    last_opening = np.maximum.accumulate(np.where(is_item, 0, np.arange(len(tags))))
    is_ordered = tags[last_opening[is_item]] == _OPEN_ORDERED
    kinds[positions[is_item]] = np.where(is_ordered, _ORDERED, _UNORDERED)
