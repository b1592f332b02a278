"""Code in responses: fenced blocks, the Python or the diff among them, outputs of programs, and what is never closed.

    >>> find_code("Here:\\n```python\\nx = 1\\n```")
    'x = 1\\n'
    >>> find_unclosed_code("int main() {\\n    return 0;")
    "'{' never closes"
    >>> find_unclosed_markup("<div><p>One</p>")
    '<div> never closes'
    >>> find_unclosed_formula(r"We have \\[ x = \\frac{1}{2")
    "'\\\\\\\\[' never closes"

The functions `find_unclosed_…` scan code, HTML, LaTeX or JSON once. They report what is still open at the end, and
ignore closing brackets that close nothing.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections import Counter
from typing import Literal, TypeAlias

from rubrank._plain import word_set
from rubrank.texts.prose import split_code
from rubrank.verifiers.shared.word_tables import compile_phrases

Compare: TypeAlias = Literal["lines", "tokens", "exact"]

_PYTHON_TAGS = ("", "python", "py", "python3", "python2")
_DIFF_TAGS = ("diff", "patch", "udiff")
# float() alone would also accept 5_0 and ５０.
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
_LONGEST_BARE_CODE = 200_000  # characters


def split_fenced_blocks(text: str) -> list[tuple[str, str]]:
    """Return (language, content) of each fenced block; one left open reaches to the end."""
    return [(tag.lower().split(" ")[0], f"{code}\n") for tag, code in split_code(text)[1]]


def parse_python(source: str) -> list[ast.stmt]:
    """Parse Python into statements, without warnings about strange escapes in other people's code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source).body


def find_code(text: str) -> str | None:
    """Return the last block tagged as Python or without a tag, else a text that is Python as a whole, else None."""
    blocks = [block for language, block in split_fenced_blocks(text) if language in _PYTHON_TAGS]
    if blocks:
        return blocks[-1]
    if "```" in text or "~~~" in text or len(text) > _LONGEST_BARE_CODE:
        return None
    try:
        return text if parse_python(text) else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def find_patch(text: str) -> str | None:
    """Return the last block with a diff, else the text from the first line on that begins one, else None."""
    blocks = [(language, block) for language, block in split_fenced_blocks(text) if block.strip()]
    diffs = [block for language, block in blocks if language in _DIFF_TAGS]
    if not diffs:
        diffs = [block for _, block in blocks if _find_diff(block) is not None]
    if diffs:
        return diffs[-1]
    start = _find_diff(text)
    return None if start is None else text[start:]


def _find_diff(text: str) -> int | None:
    """Return the position where a diff begins; None if there is none."""
    if "\n+++ " not in text and "\nrename " not in text and " file mode " not in text:
        return None
    starts = []
    for mark in ("diff --git ", "--- "):
        if text.startswith(mark):
            starts.append(0)
        elif f"\n{mark}" in text:
            starts.append(text.index(f"\n{mark}") + 1)
    return min(starts, default=None)


def is_same_output(expected: str, written: str, compare: Compare, tolerance: float) -> bool:
    """Is what a program wrote what it should have written?

    lines    the same lines, without regard to spaces at the end of a line and around the text
    tokens   the same words; numbers may differ by `tolerance`, relative or (below 1) absolute
    exact    the same text
    """
    if compare == "exact":
        return expected == written
    if compare == "lines":
        expected_lines = [line.rstrip() for line in expected.strip().splitlines()]
        written_lines = [line.rstrip() for line in written.strip().splitlines()]
        return expected_lines == written_lines
    expected_tokens = expected.split()
    written_tokens = written.split()
    if len(expected_tokens) != len(written_tokens):
        return False
    for left, right in zip(expected_tokens, written_tokens, strict=True):
        if _NUMBER.fullmatch(left) and _NUMBER.fullmatch(right):
            number = float(left)
            allowed_difference = tolerance * max(1.0, abs(number))
            is_same = left == right or abs(number - float(right)) <= allowed_difference
        else:
            # NaN comes from a calculation that failed, so no output is right.
            is_same = left == right and left.lower().strip("+-") != "nan"
        if not is_same:
            return False
    return True


_MOST_CHARACTERS = 200_000  # characters that are scanned; longer Python is not parsed


class _Stack:
    """Names that were opened and not closed. Closing one closes what was opened inside it."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._counts: Counter[str] = Counter()

    def open(self, name: str) -> None:
        self.names.append(name)
        self._counts[name] += 1

    def is_open(self, name: str) -> bool:
        return self._counts[name] > 0

    def close(self, name: str) -> None:
        """Close the name; one that is not open is ignored."""
        if not self.is_open(name):
            return
        closed = ""
        while closed != name:
            closed = self.names.pop()
            self._counts[closed] -= 1


# ---- code -----------------------------------------------------------------------------------------------------------

# Comments and strings hide brackets. A single quotation mark on a line is an apostrophe, or a lifetime in Rust.
_CODE_TOKEN = re.compile(
    r"\"\"\"|'''|/\*|\*/"  # marks of long strings and block comments
    r"|(?:(?<=\s)|^)(?:#(?!include|define)|//|--\s)[^\n]*+"  # a comment to the end of its line
    # Strings. The limit keeps a line of escaped quotation marks from being read again from each of them.
    r"|\"(?:[^\"\\\n]|\\.){0,500}+\"|'(?:[^'\\\n]|\\.){0,500}+'|`[^`\n]*+`"
    r"|[()\[\]{}]",
    re.MULTILINE,
)
_CLOSING = {")": "(", "]": "[", "}": "{"}
# A line that looks like code in one of many languages
_CODE_LINE = re.compile(
    r"[;{}]\s*(?://.*|#.*)?$"  # return x; // done
    r"|^\s*(?:"
    r"(?:async )?(?:def|class|function|func|fn|struct|package|import|namespace) [\w$*{]"  # def f
    r"|from [\w.]+ import|#include|return\b|using \w+;"
    r"|(?:public|private|static|void|int|var|let|const|auto|double|float|String) \w"  # int x
    r"|(?:if|elif|for|while|with|switch|except|try|else|case|}) ?.{0,200}[:({]$"  # for x in y:
    r"|@\w+$|@\w+\("  # @cache
    r"|[\w.\[\]\"']+\s*(?:[-+*/|&]?=|:=|<-)\s*\S"  # total += 1
    r"|[\w.]+\(\S*\)?,?$"  # print(x)
    r"|[\w.]+\(.*[\"'=,(\[]"  # plot(x, y
    r"|[)\]}]+[;,]?$"  # });
    r")"
    r"|[=-]>|[(\[]$"  # x => y, f(
    r"|^\s*([\"'])[^\"'\n]{1,80}\1\s*:\s*\S",  # "name": "Ada"
)
# Comments, and then the first words of a statement. Small letters must say more than "select", which is English, too.
_SQL_START = re.compile(
    r"\s*(?:--[^\n]*\n\s*)*(?:SELECT\s|(?i:INSERT\s+INTO|UPDATE\s+\S+\s+SET|DELETE\s+FROM|ALTER\s+TABLE"
    r"|CREATE\s+(?:OR\s+REPLACE\s+)?(?:TEMP\w*\s+)?(?:TABLE|VIEW|INDEX|FUNCTION|PROCEDURE|DATABASE|TRIGGER)"
    r"|WITH\s+\w+\s+AS\s*\(|SELECT\s[^.!?]{1,500}\sFROM\s))"
)
# A statement cannot end with these: "… FROM users WHERE", "a ="
_SQL_OPEN_END = re.compile(
    r"(?:\b(?:SELECT|FROM|WHERE|AND|OR|ON|JOIN|INNER|LEFT|RIGHT|OUTER|GROUP|ORDER|BY|HAVING|AS|IN|NOT|VALUES|INTO|SET"
    r"|UNION|LIKE|BETWEEN|WHEN|THEN|ELSE|CASE|IS|TABLE|CREATE|INSERT|UPDATE|DELETE|WITH|DISTINCT|LIMIT|PRIMARY|FOREIGN"
    r"|REFERENCES|CONSTRAINT|PARTITION)|[=<>+*/,.(-])$",
    re.IGNORECASE,
)
_COMMENT_LINE = re.compile(r"\s*(?:#|//|/\*|\*|--|\"\"\"|''')")
_SENTENCE_ENDS = tuple(".!?。！？")
_TWO_WORDS = re.compile(r"[^\W\d_]{2,} [^\W\d_]{2,}")
_LIST_ENTRY = re.compile(r"\s*(?:[-*•#]|\d{1,4}[.)])\s")
_CHINESE_OR_JAPANESE = re.compile("[\u3040-\u30ff\u4e00-\u9fff]{4}")
_WORDS_AT_END = word_set("pass break continue return end else fi done endif next exit quit")
_BUILTIN_NAMES = word_set(
    "True False None print len range list str int float dict set sorted enumerate zip tuple return import lambda"
)
_NAME = re.compile(r"\w+")
_COMMENT_MARK = re.compile(r"#|//|--")
_COMMENT = re.compile(r"(?:^|\s)(?:#|//|--)")
_INDENT_AND_COMMENT = re.compile(r"(\s*)(?:#|//|--)\s?(.*)$")
_OUTPUT_COMMENT = compile_phrases("output_comment")
# A line cannot end with these: "x =", "foo.", "if a and"
_OPERATOR_END = re.compile(
    r"(?:[=+*/%&|<^,(\[{]|[a-z_)\]]\.|(?<![-\w])-|\b(?:and|or|not|in|is|return|import|def|class|new|lambda|if))$"
)


def take_code(text: str) -> str:
    """Return the code without a fence that a text consists of or ends with; "" if it ends with prose.

    At least three lines must be code, or two if there are no other lines. Comments are not counted. The last line may
    be cut off, so it need not look like code.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    start = len(lines)
    code_lines = 0
    other_lines = 0
    for index in range(len(lines) - 1, -1, -1):
        line = lines[index][:500]
        if _CODE_LINE.search(line):
            code_lines += 1
            start = index
        elif not _COMMENT_LINE.match(line) and index < len(lines) - 1:
            other_lines += 1
            if other_lines > 3 + code_lines // 2:
                break
    fewest = 3 if other_lines else 2
    if code_lines < fewest:
        return ""
    last_line = lines[-1]
    is_prose = _ends_sentence(last_line) and not _CODE_LINE.search(last_line)
    if is_prose or _LIST_ENTRY.match(last_line) or _CHINESE_OR_JAPANESE.search(last_line):
        return ""
    return "\n".join(lines[start:])


def _ends_sentence(line: str) -> bool:
    """Does the line end as a sentence does?"""
    has_words = _TWO_WORDS.search(line) is not None or _CHINESE_OR_JAPANESE.search(line) is not None
    return has_words and line.rstrip().endswith(_SENTENCE_ENDS)


def find_unclosed_code(code: str) -> str | None:
    """Say what bare code leaves open at its end: a bracket, a string, a statement; None if nothing."""
    code = code[:_MOST_CHARACTERS].rstrip()
    brackets: list[str] = []
    block_mark = ""  # the mark that ends the comment or the long string that we are in
    for token in _CODE_TOKEN.finditer(code):
        sign = token[0]
        if block_mark:
            if sign == block_mark:
                block_mark = ""
        elif sign in ('"""', "'''"):
            block_mark = sign
        elif sign == "/*":
            block_mark = "*/"
        elif sign in "([{":
            brackets.append(sign)
        elif sign in _CLOSING and brackets and brackets[-1] == _CLOSING[sign]:
            brackets.pop()
    if brackets:
        return f"{brackets[-1]!r} never closes"
    if block_mark:
        return f"{block_mark!r} never comes"
    last_line = code.rpartition("\n")[2]
    if last_line.count('"') % 2 and not _COMMENT_MARK.search(last_line):
        return "a string never closes"
    if _OPERATOR_END.search(last_line) and not _COMMENT.search(last_line):
        return f"a statement breaks off: {last_line[-30:]!r}"
    return None


def find_unclosed_python(code: str) -> str | None:
    """Say why the last line is no Python, in code that otherwise is; None if it is, or nothing is."""
    if len(code) > _MOST_CHARACTERS:
        return None
    try:
        parse_python(code)
    except SyntaxError as error:
        number_of_lines = code.rstrip().count("\n") + 1
        if (error.lineno or 0) >= number_of_lines:
            return f"the last line is no Python: {error.msg}"
    except (ValueError, RecursionError, MemoryError):
        return None
    return None


def find_half_name(code: str) -> str | None:
    """Name a last name that no statement ends with: half of another name, or a call without its brackets.

    A name that stands alone on the last line counts as well, unless it was used before.
    """
    names = _NAME.findall(code)
    last_line = code.rpartition("\n")[2].strip()
    if len(names) < 10 or not _NAME.fullmatch(code[-1]) or _COMMENT_MARK.search(last_line):
        return None
    last_name = names[-1]
    earlier = set(names[:-1])
    if last_name.isdigit() or last_name in _WORDS_AT_END:
        return None
    calls = len(re.findall(rf"\b{last_name}\s?\(", code))
    if calls and calls == names.count(last_name) - 1:
        return f"a call without its brackets: {last_name!r}"
    if last_name in earlier:
        return None
    if last_line == last_name:
        return f"a name without a statement: {last_name!r}"
    for name in sorted(earlier | _BUILTIN_NAMES):
        is_longer = name.startswith(last_name) and len(name) > len(last_name) + 1
        if is_longer and last_name not in _BUILTIN_NAMES:
            return f"half a name at the end: {last_name!r}, {name!r} before"
    return None


def find_open_comment(code: str) -> str | None:
    """Name a comment that stands alone on its line and announces code, if no code follows.

    Such a comment stands after an empty line or inside a block. One that tells the output may end the code.
    """
    lines = code.rstrip().splitlines()
    comment = _INDENT_AND_COMMENT.match(lines[-1]) if len(lines) >= 3 else None
    if not comment or _OUTPUT_COMMENT.search(comment[2]):
        return None
    previous = lines[-2]
    is_announcing = not previous.strip() or (comment[1] != "" and not _COMMENT_LINE.match(previous))
    if is_announcing and comment[2][-1:].isalpha() and take_code("\n".join(lines[:-1])):
        return f"no code follows the comment: {lines[-1].strip()[-40:]!r}"
    return None


def find_unclosed_sql(code: str) -> str | None:
    """Say how the last statement of SQL breaks off; None if it does not, or this is no SQL."""
    end = code.rstrip()
    if not _SQL_START.match(code) or end.endswith((".", "!", "?")):
        return None
    last_line = end.rpartition("\n")[2]
    if last_line.lstrip().startswith("--"):
        return f"no statement follows the comment: {last_line.strip()[-30:]!r}"
    if "--" in last_line:
        return find_unclosed_code(end)
    if _SQL_OPEN_END.search(end):
        return f"a statement breaks off: {end[-30:]!r}"
    if ";" in end and not end.endswith(";"):
        return f"the last statement has no end: {end[-30:]!r}"
    unclosed = find_unclosed_code(end)
    if unclosed or end.endswith(";"):
        return unclosed
    return find_half_name(end)


# ---- markup ---------------------------------------------------------------------------------------------------------

# A comment, or a tag: slash, name, attributes
_TAG = re.compile(r"<!--|<(/?)([a-zA-Z][\w:-]*+)([^<>]*+)>")
# "<div cla", "</", "<!-- to do" at the end
_HALF_TAG = re.compile(r"</?(?:[a-zA-Z][^<>]*+)?\Z|<!--(?:(?!-->).)*+\Z", re.DOTALL)
_NEVER_CLOSED = word_set("""
    area base br col embed hr img input link meta param source track wbr !doctype p li dt dd td th tr tbody thead tfoot
    option colgroup
""")
_RAW_ELEMENTS = ("script", "style")
_DOCUMENT_START = re.compile(r"<(?:!DOCTYPE|\?xml|[a-zA-Z][\w:-]*[\s>/])", re.IGNORECASE)


def find_unclosed_markup(text: str) -> str | None:
    """Name the element that HTML or XML leaves open, or the tag that breaks off; None if all are closed."""
    text = text[:_MOST_CHARACTERS].strip()
    if not _DOCUMENT_START.match(text) or text.count("<") < 3:
        return None
    half_tag = _HALF_TAG.search(text, text.rfind("<"))
    if half_tag:
        return f"a tag breaks off: {half_tag[0][:30]!r}"
    lowered = text.lower()
    elements = _Stack()
    position = 0
    while tag := _TAG.search(text, position):
        position = tag.end()
        if tag[0] == "<!--":
            position = text.find("-->", position)
            if position < 0:
                return "a comment never closes"
            continue
        slash, name, attributes = tag.groups()
        name = name.lower()
        if slash:
            elements.close(name)
        elif name not in _NEVER_CLOSED and not attributes.endswith("/"):
            elements.open(name)
            if name in _RAW_ELEMENTS:  # its content is no markup
                position = lowered.find(f"</{name}", position)
                if position < 0:
                    return f"<{name}> never closes"
    return f"<{elements.names[-1]}> never closes" if elements.names else None


# ---- formulas -------------------------------------------------------------------------------------------------------

# \\ (a line break), \[, \], \(, \), $$, \begin{align*}
_FORMULA_MARK = re.compile(r"\\\\|\\[\[\]()]|\$\$|\\(begin|end)\{(\w+\*?)\}")
_CLOSING_MARK = {"\\]": "\\[", "\\)": "\\("}
# What shows that text after a single $ is a formula that breaks off: a command, or "x^" at the end
_HALF_FORMULA = re.compile(r"\\[a-zA-Z]+|[_^{=+-]\s*$")
_COMMAND_NAME = re.compile(r"\\[a-zA-Z]{2,}")
_COMMAND = re.compile(r"\\[a-zA-Z]+\{")


def find_unclosed_formula(text: str) -> str | None:
    """Name the formula or environment of LaTeX that is open at the end; None if there is none."""
    text = text[-_MOST_CHARACTERS:]
    # "\\(name)" without a command of LaTeX behind it is Swift.
    has_round_marks = "\\)" in text or _COMMAND_NAME.search(text, text.rfind("\\(") + 2)
    formulas = _Stack()
    for mark in _FORMULA_MARK.finditer(text):
        sign = mark[0]
        if sign == "\\\\":  # a line break inside a formula
            continue
        if sign == "\\(" and not has_round_marks:
            continue
        if mark[1] == "begin":
            formulas.open(mark[2])
        elif mark[1] == "end":
            formulas.close(mark[2])
        elif sign == "$$" and formulas.is_open(sign):
            formulas.close(sign)
        elif sign in _CLOSING_MARK:
            formulas.close(_CLOSING_MARK[sign])
        else:
            formulas.open(sign)
    last_line = text.rstrip().rpartition("\n")[2].replace("\\$", "")
    # If the text goes on to the end of a sentence, only the closing mark was forgotten.
    if formulas.names and not _ends_sentence(last_line):
        return f"{formulas.names[-1]!r} never closes"
    if last_line.count("$") % 2:
        before, _, formula = last_line.rpartition("$")
        if not before[-1:].isalnum() and _HALF_FORMULA.search(formula):
            return "'$' never closes"
    tail = last_line[-2_000:]
    commands = list(_COMMAND.finditer(tail))
    if commands and "}" not in tail[commands[-1].end() :]:
        return f"{commands[-1][0]!r} never closes"
    return None


# ---- JSON -----------------------------------------------------------------------------------------------------------


def find_unclosed_json(text: str) -> str | None:
    """Say that JSON never closes: the text starts like JSON, and has more opening than closing brackets."""
    if not re.match(r'\{\s*"|\[\s*[{"\[]', text) or len(text) > 1_000_000:
        return None
    try:
        json.loads(text)
    except RecursionError:
        return None
    except ValueError:
        without_strings = re.sub(r'"(?:[^"\\]|\\.)*+"?', "", text)
        opening = without_strings.count("{") + without_strings.count("[")
        closing = without_strings.count("}") + without_strings.count("]")
        if opening > closing:
            return "JSON never closes"
    return None
