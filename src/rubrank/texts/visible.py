"""What a reader sees of a text: without comments, hidden elements, link targets and characters that show nothing.

    >>> visible("It is b<!-- not -->ad, ba\\u200bd and b**a**d: [see](http://x.y/fine).")
    'It is bad, bad and bad: see.'

Markdown and HTML are read as they are rendered: a comment, an element that is hidden (`hidden`, `display:none`,
`<script>` …), the target of a link, the text behind a picture and the definition of a reference are not seen;
entities are the characters that they stand for; emphasis, code marks and tags inside a word do not divide it;
paragraphs, headings and lists of HTML are those of Markdown. In code everything is seen. The signs of lists,
headings, tables and of emphasis around whole words stay: they are structure.

An ordinary text, which holds nothing of the kind, comes back as the same object, and that is decided fast. Not covered:
letters that look like others, style sheets, white text on white that is not said in the element itself.
"""

from __future__ import annotations

import html
import re
from itertools import pairwise

# Characters that show nothing, and those that show a blank. Joiners and selectors belong to an emoji: only after a
# letter they show nothing.
_NOTHING = (
    "\u00ad\u034f\u061c\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0100-\U000e0fff"
)
_BLANK = "\u115f\u1160\u2800\u3164\uffa0"
_JOINING = "\u200c\u200d\ufe00-\ufe0f"
_UNSEEN = re.compile(f"[{_NOTHING}]+|(?<=[^\\W_])[{_JOINING}]+(?!\u20e3)")
_BLANKS = re.compile(f"[{_BLANK}]")
_ODD = re.compile(f"[{_NOTHING}{_BLANK}{_JOINING}]")

_FENCE = re.compile(r"[ \t]{0,3}(?:[-*+>] |\d{1,3}[.)] )?[ \t]*(`{3,}|~{3,})(.*)")
_TICKS = re.compile(r"`[^`\n]+`")
_COMMENT = re.compile(r"<!--(?:-?>|.*?-->)|(?:^|(?<=\n))[ \t]{0,3}<!--.*|<!\[CDATA\[.*?\]\]>", re.DOTALL)
_DROPPED = ("script", "style", "template", "noscript", "head", "datalist", "object", "iframe")
_HIDDEN_STYLE = (
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|font-size\s*:\s*0(?![.\d]*[1-9])|opacity\s*:\s*0(?![.\d]*[1-9])"
    r"|color\s*:\s*transparent"
)
_OPENING = re.compile(
    rf"<(?:({'|'.join(_DROPPED)})\b[^<>]{{0,2000}}>|([a-z][a-z0-9-]{{0,30}})(?=[\s/])"
    rf"(?:[^<>]{{0,2000}}?[\s\"'](?:hidden(?=[\s>=/])|style\s*=\s*[\"'][^\"'<>]{{0,500}}(?:{_HIDDEN_STYLE})))[^<>]{{0,2000}}>)",
    re.IGNORECASE,
)
_INLINE = (
    "a|abbr|acronym|b|bdi|bdo|big|cite|code|data|del|dfn|em|font|i|ins|kbd|label|mark|q|s|samp|small|span|strike|strong"
    "|sub|sup|time|tt|u|var|wbr"
)
_BLOCK = (
    "address|article|aside|blockquote|body|br|button|caption|center|dd|details|div|dl|dt|figcaption|figure|footer|form"
    "|h[1-6]|header|hr|html|img|input|legend|li|main|nav|ol|option|p|pre|section|select|summary|table|tbody|td|textarea"
    "|tfoot|th|thead|title|tr|ul|video|audio|svg|canvas"
)
_TAG = re.compile(
    rf"(?<!<)</?(?:({_INLINE})|(?:{_BLOCK}))(?:\s[^<>=]{{0,100}}=[^<>]{{0,2000}})?\s{{0,9}}/?>(?!>)", re.IGNORECASE
)
_PICTURE = re.compile(r"!\[[^\[\]\n]{0,500}\](?:\([^()\n]{0,2000}\)|\[[^\[\]\n]{0,200}\])")
_LINK = re.compile(
    r"\[([^\[\]\n]{0,1000})\]\((?:<[^<>\n]{0,2000}>|[^\s()<>]{0,2000}(?:\([^\s()]{0,500}\)[^\s()<>]{0,500})?)"
    r"(?:[ \t]{1,9}(?:\"[^\"\n]{0,500}\"|'[^'\n]{0,500}'|\([^()\n]{0,500}\)))?[ \t]{0,9}\)"
)
_DEFINITION = re.compile(
    r"(?m)^[ ]{0,3}\[(?!\^)[^\[\]\n]{1,200}\]:[ \t]*(?:<[^<>\n]*>|\S+)"
    r"(?:[ \t]+(?:\"[^\"\n]*\"|'[^'\n]*'|\([^()\n]*\)))?[ \t]*$\n?"
)
_PHANTOM = re.compile(r"\\[hv]?phantom\{[^{}\n]{0,500}\}")
_LETTER = r"[^\W\d_]"
_IN_WORD = re.compile(
    rf"(?<={_LETTER})(\*{{2,3}}|`)([^\s*`]{{1,60}})\1|(?<![*`\w])(\*{{2,3}}|`)([^\s*`]{{1,60}})\3(?={_LETTER})"
    # One star may be a product, K*b*x: then no part has two letters.
    r"|(?<=[a-z][a-z])\*([a-z]{1,60})\*|(?<=[a-zA-Z])\*([a-z]{2,60})\*|(?<![*\w])\*([A-Za-z]{2,60})\*(?=[a-z])"
    r"|(?<=[a-zA-Z])\*([a-z])\*(?=[a-z]{2})|(?<![*\w])\*([A-Za-z])\*(?=[a-z]{2})"
)


def visible(text: str) -> str:
    """The text as a reader sees it; the very same object where nothing is hidden."""
    if not text.isascii() and _ODD.search(text):
        text = _BLANKS.sub(" ", _UNSEEN.sub("", text))
    if not _may_hide(text):
        return text
    if "```" not in text and "~~~" not in text:
        return _outside_ticks(text)
    parts, mark = [list[str]()], ""
    for line in text.splitlines(keepends=True):
        fence = _FENCE.match(line) if "`" in line or "~" in line else None
        closes = bool(mark and fence and fence[1].startswith(mark) and not fence[2].strip())
        opens = bool(not mark and fence and fence[1][0] not in fence[2])
        if opens and fence:
            parts.append([])
            mark = fence[1]
        parts[-1].append(line)
        if closes:
            parts.append([])
            mark = ""
    pieces = map("".join, parts)
    return "".join(piece if _FENCE.match(piece) else _outside_ticks(piece) for piece in pieces)


def _outside_ticks(text: str) -> str:
    """Rendered, but for code in backticks that is no part of a word."""
    parts, at = list[str](), 0
    for code in _TICKS.finditer(text) if "`" in text else ():
        if not _within_word(text, code):
            parts += [_rendered(text[at : code.start()]), code[0]]
            at = code.end()
    return "".join((*parts, _rendered(text[at:]))) if at else _rendered(text)


def without_unseen(text: str) -> str:
    """The text without characters that show nothing."""
    return text if text.isascii() else _BLANKS.sub(" ", _UNSEEN.sub("", text))


def _may_hide(text: str) -> bool:
    """Single characters are sought fast; most texts hold none of these."""
    return (
        ("<" in text and _TAGGED.search(text) is not None)
        or ("&" in text and _ENTITY.search(text) is not None)
        or ("]" in text and ("](" in text or "]:" in text or "][" in text))
        or ("\\" in text and "phantom{" in text)
        or _joins(text, "*")
        or ("`" in text and _TICKED.search(text) is not None)
    )


_TICKED = re.compile(r"`(?<=[A-Za-z]`)[^`\n]+`|`[^`\n]+`(?=[A-Za-z])")
_TAGGED = re.compile(r"<[!/a-zA-Z]")
_ENTITY = re.compile(r"&(?:#\d|#[xX]|[a-zA-Z]{2,31};)")


def _joins(text: str, sign: str) -> bool:
    """Does the sign, or several of them, stand between two letters?"""
    if sign not in text:
        return False
    pieces = text.replace(sign * 3, sign).replace(sign * 2, sign).split(sign)
    return any(a[-1:].isalpha() and b[:1].isalpha() for a, b in pairwise(pieces))


def _within_word(text: str, code: re.Match[str]) -> bool:
    before, after = text[max(0, code.start() - 1) : code.start()], text[code.end() : code.end() + 1]
    return any(char.isascii() and char.isalpha() for char in (before, after))


def _rendered(text: str) -> str:
    """A piece of text outside code."""
    if "<" in text:
        text = _COMMENT.sub("", text) if "<!" in text else text
        text = _without_hidden(text)
        text = _untagged(text)
    if "]" in text:
        text = _DEFINITION.sub("", text) if "]:" in text else text
        text = _LINK.sub(r"\1", _PICTURE.sub("", text) if "![" in text else text)
    text = _PHANTOM.sub("", text) if "phantom{" in text else text
    text = _IN_WORD.sub(_content, text) if "*" in text or "`" in text else text
    if "&" in text:
        text = html.unescape(text).replace("\xa0", " ")
        text = _BLANKS.sub(" ", _UNSEEN.sub("", text))
    return text


def _untagged(text: str) -> str:
    """Without tags; paragraphs, headings and list entries stand as in Markdown, closed or not."""
    numbered: list[bool] = []

    def shown(tag: re.Match[str]) -> str:
        if tag[1]:
            return ""
        name, closes = re.split(r"[\s/>]", tag[0].lstrip("</"), maxsplit=1)[0].lower(), tag[0].startswith("</")
        if name in ("ul", "ol"):
            if closes:
                del numbered[-1:]
            else:
                numbered.append(name == "ol")
            return "\n"
        if name == "li" and not closes:
            return "\n1. " if numbered and numbered[-1] else "\n- "
        if name in _HEADINGS:
            return "\n\n" if closes else f"\n\n{'#' * int(name[1])} "
        return "\n\n" if name == "p" else "\n"

    return _TAG.sub(shown, text)


_HEADINGS = frozenset(f"h{level}" for level in range(1, 7))


def _content(emphasis: re.Match[str]) -> str:
    """What is emphasised, without the signs (groups 1 and 3)."""
    return next(group for number, group in enumerate(emphasis.groups(), start=1) if group and number not in (1, 3))


def _without_hidden(text: str) -> str:
    """Without elements that are not shown: up to the tag that closes them, else to the end of the paragraph."""
    parts, at, unclosed = list[str](), 0, set[str]()
    while opening := _OPENING.search(text, at):
        name = (opening[1] or opening[2]).lower()
        closing = None if name in unclosed else re.compile(rf"</{name}\s*>", re.IGNORECASE).search(text, opening.end())
        end = closing.end() if closing else opening.end()
        if not closing:
            unclosed.add(name)
            end = text.find("\n\n", end) % (len(text) + 1) if opening[2] else end
        parts.append(text[at : opening.start() if closing or opening[2] else end])
        at = end
    return "".join((*parts, text[at:])) if at else text
