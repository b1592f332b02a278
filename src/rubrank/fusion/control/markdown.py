"""How much Markdown a response uses: eleven markers, counted as a reader would see them.

    >>> markdown_counts(["# Plan\\n\\n- **fast**\\n- cheap"])[0][:8]
    array([1, 1, 0, 0, 0, 0, 0, 2])

Texts are parsed as CommonMark with tables, so a `#` in a code fence is no heading and `2 * 3 * 4` holds no italics.

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

How it is fast: a response costs one pass of the parser, in Rust, which writes HTML for many responses into one buffer;
numpy then finds all `<` at once and tells the tags apart by the two characters that follow.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sized
from io import BytesIO
from itertools import accumulate
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rubrank._plain import encodable
from rubrank.errors import UnknownName, only_our_errors
from rubrank.fusion.control.attribute import Texts, flatten_texts
from rubrank.texts.markdown import PARSER, has_only_line_feeds, limit_depth
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


# What the parser writes for each marker, by the two characters after `<`. Lists only say which kind their items are.
_HEADING, _BOLD, _ITALIC, _ROW, _BLOCK, _CODE, _ORDERED, _UNORDERED, _QUOTE, _RULE, _LINK = range(len(MARKERS))
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

# HTML is rendered, and texts are laid out, in buffers of about so many bytes: a batch of any size needs little memory.
_BUFFER = 1 << 20
_MANY = 64  # texts from which compiled code is faster

# Of closing tags only those of lists are looked at; the parser wants `</pre>` and `</script>` in small letters.
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
        size = _count_lines(flat).astype(float)
    elif per == "100 words":
        size = np.array([count_words(text) / 100 for text in flat])
    else:
        raise UnknownName.of("markdown_density", "per", per, ("line", "100 words"))
    # A text of markers alone has no words: a floor of one line, or one word, keeps its density finite.
    floor = 1.0 if per == "line" else 0.01
    return (_counts(flat) / np.maximum(size, floor)[:, None]).reshape(*shape, len(MARKERS))


def _count_lines(texts: list[str]) -> NDArray[np.int64]:
    if not _is_compiled(texts):
        return np.array([*map(_lines_of, texts)], dtype=np.int64)
    return np.concatenate([*map(_count_lines_compiled, _portions(texts))])


def _portions(texts: list[str]) -> Iterator[list[str]]:
    """The texts in order, some at a time: no more characters than a buffer holds, but for texts that are larger."""
    some: list[str] = []
    size = 0
    for text in texts:
        if some and size + len(text) > _BUFFER:
            yield some
            some, size = [], 0
        some.append(text)
        size += len(text)
    yield some


def _lines_of(text: str) -> int:
    return len([*filter(str.strip, text.splitlines())])


def _count_lines_compiled(texts: list[str]) -> NDArray[np.int64]:
    from rubrank.fusion.control.markdown_lines import ASK, WIDTH, count_lines

    parts = [text.encode("utf-8", "surrogatepass") for text in texts]
    ends = np.array([*accumulate(len(part) + 1 for part in parts)], dtype=np.int64)
    counts = np.empty(len(texts), dtype=np.int64)
    data = b"\n".join([*parts, b" " * (-ends[-1] % WIDTH)])
    count_lines(np.frombuffer(data, dtype=np.uint8), ends, counts)
    for i, text in enumerate(texts):
        if counts[i] == ASK or not has_only_line_feeds(text):
            counts[i] = _lines_of(text)
    return counts


def _is_compiled(texts: Sized) -> bool:
    """Are there enough for compiled code? Numba is not loaded for this."""
    return "numba" in sys.modules and len(texts) >= _MANY


def _counts(texts: list[str]) -> NDArray[np.int64]:
    chunks = [_count_tags(html, ends) for html, ends in _render(texts)]
    return np.concatenate([np.zeros((0, len(MARKERS)), dtype=np.int64), *chunks])


def _render(texts: Iterable[str]) -> Iterator[tuple[NDArray[np.uint8], list[int]]]:
    """Buffers of HTML, each with the places where its texts end."""
    buffer, ends = BytesIO(), []
    for text in texts:
        _write_html(text, buffer)
        buffer.write(b"\n\n")  # two characters may be read after any `<`
        ends.append(buffer.tell())
        if ends[-1] >= _BUFFER:
            yield np.frombuffer(buffer.getbuffer(), dtype=np.uint8), ends
            buffer, ends = BytesIO(), []
    if ends:
        yield np.frombuffer(buffer.getbuffer(), dtype=np.uint8), ends


def _write_html(text: str, buffer: BytesIO) -> None:
    source = _prepare(text)
    try:
        PARSER.write_html(source, buffer)
    except UnicodeEncodeError:  # lone surrogates; raised before anything is written
        PARSER.write_html(encodable(source), buffer)


def _prepare(text: str) -> str:
    """The same Markdown, with raw HTML made recognisable and without excessive depth."""
    # Raw HTML passes through the parser. Its tags may have capitals without changing how anything is parsed, and the
    # renderer writes none: so every `<` followed by a small letter in the output is a tag that Markdown made.
    if "<" in text:
        text = _RAW_TAG.sub(lambda tag: tag[0].upper(), text)
    return limit_depth(text)


def _count_tags(html: NDArray[np.uint8], ends: list[int]) -> NDArray[np.int64]:
    """Markers (texts, 11) in the concatenated HTML of texts that end at `ends`."""
    counts = (_count_compiled if _is_compiled(ends) else _count_kinds)(html, ends)[:, : len(MARKERS)]
    counts[:, _CODE] -= counts[:, _BLOCK]  # a code block is <pre><code>
    return counts


def _count_compiled(html: NDArray[np.uint8], ends: list[int]) -> NDArray[np.int64]:
    from rubrank.fusion.control.markdown_tags import count_tags

    counts = np.zeros((len(ends), _OTHER + 1), dtype=np.int64)
    count_tags(html, np.array(ends, dtype=np.int64), _KIND, counts, _OPEN_ORDERED, _ORDERED)
    return counts


def _count_kinds(html: NDArray[np.uint8], ends: list[int]) -> NDArray[np.int64]:
    at = np.flatnonzero(html == ord("<"))
    kind = _KIND[html[at + 1], html[at + 2]]
    _tell_items(kind)
    text = np.repeat(np.arange(len(ends)), np.diff(np.searchsorted(at, ends), prepend=0))
    counts = np.bincount(text * (_OTHER + 1) + kind, minlength=len(ends) * (_OTHER + 1))
    return counts.reshape(len(ends), _OTHER + 1)


def _tell_items(kind: NDArray[np.uint8]) -> None:
    """Turn every list item, in place, into an item of the innermost list that is open there."""
    at = np.flatnonzero((kind >= _OPEN_ORDERED) & (kind <= _ITEM))
    tag = kind[at]
    depth = np.cumsum((tag <= _OPEN_UNORDERED).astype(np.int64) - (tag == _CLOSE_LIST))
    # Taken by depth, and in reading order within a depth, an item belongs to the last list that opened before it.
    keep = np.flatnonzero(tag != _CLOSE_LIST)
    keep = keep[np.argsort(depth[keep], kind="stable")]
    at, tag = at[keep], tag[keep]
    opened = np.maximum.accumulate(np.where(tag == _ITEM, 0, np.arange(len(tag))))
    item = tag == _ITEM
    kind[at[item]] = np.where(tag[opened[item]] == _OPEN_ORDERED, _ORDERED, _UNORDERED)
