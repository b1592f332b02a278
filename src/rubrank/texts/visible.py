"""Reduce a text to what a reader sees: without comments, hidden elements, link targets and invisible characters.

    >>> visible("It is b<!-- not -->ad, ba\\u200bd and b**a**d: [see](http://x.y/fine).")
    'It is bad, bad and bad: see.'

Markdown and HTML are read as they are rendered:
- Invisible: comments, hidden elements (`hidden`, `display:none`, `<script>` …), link targets, the text behind a
  picture, definitions of references.
- Entities become the characters they stand for. Emphasis, code marks and tags inside a word do not divide it.
- HTML paragraphs, headings and lists become those of Markdown.
- Code is not changed, unless what stands around it hides it. The signs of lists, headings, tables and of emphasis
  around whole words stay, too, because they are structure.

Most texts hide nothing. A cheap test finds that out, and they are returned unchanged. Not covered: letters that look
like others, style sheets, letters in the colour of a background that another element has.
"""

from __future__ import annotations

import html
import re
from itertools import pairwise

# Ranges for character classes of patterns. Joiners and variation selectors are part of an emoji, so they count as
# invisible only after a letter.
_SHOWING_NOTHING = (
    "\u00ad\u034f\u061c\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0100-\U000e0fff"
)
_SHOWING_A_BLANK = "\u115f\u1160\u2800\u3164\uffa0"
_JOINERS = "\u200c\u200d\ufe00-\ufe0f"
_INVISIBLE_RUN = re.compile(f"[{_SHOWING_NOTHING}]+|(?<=[^\\W_])[{_JOINERS}]+(?!\u20e3)")
_UNUSUAL_BLANK = re.compile(f"[{_SHOWING_A_BLANK}]")
_MAY_BE_INVISIBLE = re.compile(f"[{_SHOWING_NOTHING}{_SHOWING_A_BLANK}{_JOINERS}]")

# "```python", also in a list item or a quote: the marks, and what follows them
FENCE = re.compile(r"[ \t]{0,3}(?:[-*+>] |\d{1,3}[.)] )?[ \t]*(`{3,}|~{3,})(.*)")
_CODE_OR_COMMENT_START = re.compile(r"`[^`\n]+`|<!--")
# Stands for code in backticks while the text around it is rendered: \x01, its number, \x01. The character shows
# nothing, and no entity gives it.
_CODE_MARK = "\x01"
_MARKED_CODE = re.compile(rf"{_CODE_MARK}(\d+){_CODE_MARK}")
_COMMENT = re.compile(r"<!--(?:-?>|.*?-->)", re.DOTALL)  # <!--> and <!---> are comments, too
_CDATA = re.compile(r"<!\[CDATA\[.*?\]\]>", re.DOTALL)
_UNCLOSED_COMMENT = re.compile(r"^[ \t]{0,3}<!--.*", re.DOTALL | re.MULTILINE)
# Elements without content and without a closing tag.
_VOID_ELEMENT = re.compile("area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr")
# Elements whose content is never shown.
_DROPPED = "script|style|template|noscript|head|datalist|object|iframe|desc|metadata"
_ZERO = r"0(?![.\d]*[1-9])"  # 0 and 0.0, not 0.5
_HIDDEN_STYLE = "|".join(
    (
        r"display\s*:\s*none",
        r"visibility\s*:\s*(?:hidden|collapse)",
        # letters of no size, or of up to 1.9 pixels
        rf"font-size\s*:\s*{_ZERO}",
        r"font-size\s*:\s*[01]?(?:\.\d+)?\s*(?:px|pt)\b",
        rf"opacity\s*:\s*{_ZERO}",
        r"opacity\s*:\s*0?\.0",
        r"color\s*:\s*transparent",
        # moved out of the window
        r"text-indent\s*:\s*-\d{3}",
        r"(?:left|top)\s*:\s*-\d{3}",
        # shrunk or cut to nothing
        rf"scale\(\s*{_ZERO}",
        r"clip-path\s*:\s*(?:inset\(\s*(?:50|100)%|circle\(\s*0)",
        r"clip\s*:\s*rect\(\s*[01]",
        rf"(?<![\w-])(?:max-)?(?:height|width)\s*:\s*{_ZERO}",
        # letters of the colour of their background
        r"(?<![\w-])color\s*:\s*(?P<letters>[#\w]{3,20})\s*;\s*background(?:-color)?\s*:\s*(?P=letters)\b",
        r"background(?:-color)?\s*:\s*(?P<ground>[#\w]{3,20})\s*;\s*color\s*:\s*(?P=ground)\b",
    )
)
_WHITE = r"(?:white\b|#fff(?:fff)?\b|rgba?\(\s*255\s*,\s*255\s*,\s*255)"
# White letters are invisible unless the element sets a background: nowhere in the style is "background", and somewhere
# is a white colour. "color:white"; not "background:black; color:white", nor "border-color:white".
_WHITE_STYLE = rf"(?![^\"'<>]{{0,500}}background)[^\"'<>]{{0,500}}(?<![\w-])color\s*:\s*{_WHITE}"
_HIDING_ATTRIBUTE = (
    rf"(?:hidden(?=[\s>=/])|color\s*=\s*[\"']?{_WHITE}"
    rf"|style\s*=\s*[\"'](?:[^\"'<>]{{0,500}}(?:{_HIDDEN_STYLE})|{_WHITE_STYLE}))"
)
# <script>, <p hidden>, <span style="display:none">, <font color=white>
_HIDDEN_ELEMENT = re.compile(
    rf"<(?:(?P<dropped>{_DROPPED})\b[^<>]{{0,2000}}>"
    rf"|(?P<hidden>[a-z][a-z0-9-]{{0,30}})(?=[\s/])"
    rf"(?:[^<>]{{0,2000}}?[\s\"']{_HIDING_ATTRIBUTE})[^<>]{{0,2000}}>)",
    re.IGNORECASE,
)
# Names of elements that stand inside a line, and of those that begin a new one.
_INLINE = (
    "a|abbr|acronym|b|base|bdi|bdo|big|cite|code|data|del|dfn|em|font|i|ins|kbd|label|link|mark|meta|param|q|s|samp"
    "|small|source|span|strike|strong|sub|sup|time|track|tt|u|var|wbr"
)
_BLOCK = (
    "address|article|aside|blockquote|body|br|button|caption|center|dd|details|div|dl|dt|figcaption|figure|footer|form"
    "|h[1-6]|header|hr|html|img|input|legend|li|main|nav|ol|option|p|pre|section|select|summary|table|tbody|td|textarea"
    "|tfoot|th|thead|title|tr|ul|video|audio|svg|canvas"
)
# <b>, </p>, <a href="x">, <br/>; the group is the name of an inline element. Not <<b>>, nor a < b.
_TAG = re.compile(
    rf"(?<!<)</?(?:({_INLINE})|(?:{_BLOCK}))(?:\s[^<>=]{{0,100}}=[^<>]{{0,2000}})?\s{{0,9}}/?>(?!>)",
    re.IGNORECASE,
)
# ![a cat](cat.png), ![a cat][1]
_PICTURE = re.compile(r"!\[[^\[\]\n]{0,500}\](?:\([^()\n]{0,2000}\)|\[[^\[\]\n]{0,200}\])")
# [see](http://x.y), [see](<a b> "title"); the group is the text of the link.
_LINK = re.compile(
    r"\[([^\[\]\n]{0,1000})\]\((?:<[^<>\n]{0,2000}>|[^\s()<>]{0,2000}(?:\([^\s()]{0,500}\)[^\s()<>]{0,500})?)"
    r"(?:[ \t]{1,9}(?:\"[^\"\n]{0,500}\"|'[^'\n]{0,500}'|\([^()\n]{0,500}\)))?[ \t]{0,9}\)"
)
# A line such as [1]: http://x.y "title"; but not a footnote, [^1]: text.
_DEFINITION = re.compile(
    r"(?m)^[ ]{0,3}\[(?!\^)[^\[\]\n]{1,200}\]:[ \t]*(?:<[^<>\n]*>|\S+)"
    r"(?:[ \t]+(?:\"[^\"\n]*\"|'[^'\n]*'|\([^()\n]*\)))?[ \t]*$\n?"
)
# LaTeX that shows nothing: \phantom{x}, \textcolor{white}{x}, {\color{white} x}
_PHANTOM = re.compile(
    r"\\[hv]?phantom\{[^{}\n]{0,500}\}|\\(?:text)?color\{(?:white|transparent)\}\{[^{}\n]{0,500}\}"
    r"|\{\\color\{(?:white|transparent)\}[^{}\n]{0,500}\}"
)
_LETTER = r"[^\W\d_]"
# Emphasis or code inside a word, which does not divide it. In each alternative, the last group is what is marked.
_IN_WORD = re.compile(
    rf"""
    (?<={_LETTER}) (\*{{2,3}}|`) ([^\s*`]{{1,60}}) \1                # b**a**d, un`known`
    | (?<![*`\w]) (\*{{2,3}}|`) ([^\s*`]{{1,60}}) \3 (?={_LETTER})  # **b**ad, `un`known
    # One star may be a product, K*b*x: then no part has two letters.
    | (?<=[a-z][a-z]) \*([a-z]{{1,60}})\*                            # un*k*nown, un*known*
    | (?<=[a-zA-Z]) \*([a-z]{{2,60}})\*                              # u*nk*nown
    | (?<![*\w]) \*([A-Za-z]{{2,60}})\* (?=[a-z])                    # *un*known
    | (?<=[a-zA-Z]) \*([a-z])\* (?=[a-z]{{2}})                        # u*n*known
    | (?<![*\w]) \*([A-Za-z])\* (?=[a-z]{{2}})                       # *u*nknown
    """,
    re.VERBOSE,
)
# Cheap tests for `_may_need_rendering`.
_TAG_START = re.compile(r"<[!/a-zA-Z]")
_ENTITY = re.compile(r"&(?:#\d|#[xX]|[a-zA-Z]{2,31};)")
# un`known`, `un`known. A search for the backtick is faster than one for a letter, so the first alternative begins with
# it and then looks back: at the letter, and at the backtick itself.
_CODE_IN_WORD = re.compile(r"`(?<=[A-Za-z]`)[^`\n]+`|`[^`\n]+`(?=[A-Za-z])")


def visible(text: str) -> str:
    """Return the text as a reader sees it; the very same object if nothing is hidden."""
    if not text.isascii() and _MAY_BE_INVISIBLE.search(text):
        text = remove_invisible(text)
    if not _may_need_rendering(text):
        return text
    parts: list[str] = []
    for tag, lines in split_fences(text):
        piece = "".join(lines)
        if tag is None:
            piece = _render_around_code(piece)
        parts.append(piece)
    return "".join(parts)


def remove_invisible(text: str) -> str:
    """Return the text without characters that show nothing; characters that show a blank become spaces."""
    if text.isascii():
        return text
    return _UNUSUAL_BLANK.sub(" ", _INVISIBLE_RUN.sub("", text))


def _may_need_rendering(text: str) -> bool:
    """Tell whether the text may need rendering. A search for a single character is fast, so it comes first."""
    if "<" in text and _TAG_START.search(text):
        return True
    if "&" in text and _ENTITY.search(text):
        return True
    if "]" in text and ("](" in text or "]:" in text or "][" in text):
        return True
    if "\\" in text and ("phantom{" in text or "color{" in text):
        return True
    if "`" in text and _CODE_IN_WORD.search(text):
        return True
    if "*" not in text:
        return False
    # One, two or three stars between two letters: b**a**d.
    pieces = text.replace("***", "*").replace("**", "*").split("*")
    return any(before[-1:].isalpha() and after[:1].isalpha() for before, after in pairwise(pieces))


def split_fences(text: str) -> list[tuple[str | None, list[str]]]:
    """Split a text at its code fences into (None, lines of text) and (tag, lines of a block), in order.

    The lines keep their ends, and those of a block include its fences. The last piece is a block only if its fence is
    never closed.
    """
    pieces: list[tuple[str | None, list[str]]] = []
    lines: list[str] = []
    open_mark = ""
    tag = None
    for line in text.splitlines(keepends=True):
        fence = FENCE.match(line) if "`" in line or "~" in line else None
        # A block is closed by a mark of the same character that is at least as long, with nothing behind it.
        if fence and open_mark and fence[1].startswith(open_mark) and not fence[2].strip():
            pieces.append((tag, [*lines, line]))
            lines = []
            open_mark = ""
            tag = None
        # A line such as "```x``` is code" only begins like a fence.
        elif fence and not open_mark and fence[1][0] not in fence[2]:
            pieces.append((None, lines))
            lines = [line]
            open_mark = fence[1]
            tag = fence[2].strip()
        else:
            lines.append(line)
    pieces.append((tag, lines))
    return pieces


def _render_around_code(text: str) -> str:
    """Render a piece of text without changing code in backticks; but what hides the text around it hides it, too."""
    if "`" not in text:
        return _render(text)
    text = text.replace(_CODE_MARK, "")
    codes: list[str] = []
    parts: list[str] = []
    at = 0  # the text up to here is in `parts`
    position = 0
    last_comment_end = text.rfind("-->")
    while match := _CODE_OR_COMMENT_START.search(text, position):
        position = match.end()
        if match[0] == "<!--":
            # Backticks in a comment do not mark code: continue behind it. The end of <!--> is part of its beginning.
            end_from = match.start() + len("<!")
            if end_from <= last_comment_end:
                position = text.index("-->", end_from) + len("-->")
            continue
        # Backticks inside a word (un`known`) do not mark code.
        before = text[max(0, match.start() - 1) : match.start()]
        after = text[match.end() : match.end() + 1]
        in_word = any(char.isascii() and char.isalpha() for char in (before, after))
        if not in_word:
            parts.append(text[at : match.start()])
            parts.append(f"{_CODE_MARK}{len(codes)}{_CODE_MARK}")
            codes.append(match[0])
            at = match.end()
    parts.append(text[at:])
    rendered = _render("".join(parts))
    return _MARKED_CODE.sub(lambda mark: codes[int(mark[1])], rendered)


def _render(text: str) -> str:
    """Render a piece of text outside code."""
    if "<" in text:
        if "<!" in text:
            for closing_mark, closed in (("-->", _COMMENT), ("]]>", _CDATA)):
                # Only the text up to the last closing mark is searched. In the rest, the pattern would look for the end
                # from every opening mark and never find it, which takes quadratic time.
                head, mark, unclosed = text.rpartition(closing_mark)
                text = closed.sub("", head + mark) + unclosed
            # A comment that begins a line and is never closed hides all that follows.
            text = _UNCLOSED_COMMENT.sub("", text)
        text = _remove_hidden_elements(text)
        text = _remove_tags(text)
    if "]" in text:
        text = _DEFINITION.sub("", text)
        text = _PICTURE.sub("", text)
        text = _LINK.sub(r"\1", text)
    if "phantom{" in text or "color{" in text:
        text = _PHANTOM.sub("", text)
    if "*" in text or "`" in text:
        # The last group of a match is what is emphasised.
        text = _IN_WORD.sub(lambda match: match.group(match.lastindex or 0), text)
    if "&" in text:
        text = html.unescape(text).replace("\xa0", " ")
        text = remove_invisible(text)
    return text


def _remove_tags(text: str) -> str:
    """Remove tags; paragraphs, headings and list entries become those of Markdown, whether they are closed or not."""
    lists_numbered: list[bool] = []  # one entry per open list

    def replace_tag(tag: re.Match[str]) -> str:
        if tag[1]:  # an inline element
            if tag[1].lower() == "q":
                return "”" if tag[0].startswith("</") else "“"
            return ""
        name = re.split(r"[\s/>]", tag[0].lstrip("</"), maxsplit=1)[0].lower()
        is_closing = tag[0].startswith("</")
        if name in ("ul", "ol"):
            if is_closing:
                del lists_numbered[-1:]
            else:
                lists_numbered.append(name == "ol")
            return "\n"
        if name == "li" and not is_closing:
            return "\n1. " if lists_numbered and lists_numbered[-1] else "\n- "
        if name == "blockquote" and not is_closing:
            return "\n\n> "
        if re.fullmatch("h[1-6]", name):
            return "\n\n" if is_closing else f"\n\n{'#' * int(name[1])} "
        return "\n\n" if name == "p" else "\n"

    return _TAG.sub(replace_tag, text)


def _remove_hidden_elements(text: str) -> str:
    """Remove elements that are not shown, up to their closing tag, or else to the end of the paragraph."""
    parts: list[str] = []
    at = 0
    # Searching for their closing tag again and again would take quadratic time.
    unclosed: set[str] = set()
    while opening := _HIDDEN_ELEMENT.search(text, at):
        name = (opening["dropped"] or opening["hidden"]).lower()
        if _VOID_ELEMENT.fullmatch(name):  # only the element itself is hidden
            parts.append(text[at : opening.start()])
            at = opening.end()
            continue
        closing = None
        if name not in unclosed:
            closing = re.compile(rf"</{name}\s*>", re.IGNORECASE).search(text, opening.end())
        if closing:
            parts.append(text[at : opening.start()])
            at = closing.end()
            continue
        unclosed.add(name)
        if opening["hidden"]:
            parts.append(text[at : opening.start()])
            paragraph_end = text.find("\n\n", opening.end())
            at = paragraph_end if paragraph_end >= 0 else len(text)
        else:
            parts.append(text[at : opening.end()])
            at = opening.end()
    parts.append(text[at:])
    return "".join(parts)
