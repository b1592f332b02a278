"""Finds the result in an answer, for every verifier that compares it with a known truth.

>>> read_answer("<answer>So \\\\boxed{42}</answer>")
AnswerReading(text='42', how='the last \\\\boxed', explicit=True)
>>> read_answer("Six times seven.\\n\\nSo 42.").how
'the last line'
>>> is_denied("It is not", 9), is_denied("It is", 5)
(True, False)

Extractors, tried in this order unless the caller gives another. The first that finds something decides; if a mark
occurs several times, the last one counts:

    answer_tag   <answer>…</answer>, <final_answer>, [ANSWER]…[/ANSWER]
    solution_tag <solution>…</solution>
    boxed        \\boxed{…}, \\fbox{…}; two of them joined by "or" or a comma are read together
    hash         #### …
    json         the key "answer" (or "final_answer", 答案) of a JSON object
    stated       after "the answer is", "Answer:", 答案是, la réponse est … (`find_statements`)
    last         the only line, or the last one
    whole        the entire answer (only if asked for)

What a tag or a JSON key holds is read again: "<answer>The answer is 42</answer>" gives 42.

The words with which some thirty languages state, deny or hedge an answer are in data/answer_words.tsv,
data/answer_phrases.tsv and data/answer_patterns.tsv; a language is added by adding its words there. All patterns take
time proportional to the text: where several parts that match spaces follow each other, they match possessively
(`\\s*+`), because five plain `\\s*` in a row took seconds to fail on forty line breaks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from rubrank.verifiers.shared.word_tables import join_patterns, read_table, read_words

Extractor: TypeAlias = Literal[
    "answer_tag", "solution_tag", "boxed", "hash", "json", "stated", "last", "whole"
]
DEFAULT: tuple[Extractor, ...] = (
    "answer_tag",
    "solution_tag",
    "boxed",
    "hash",
    "json",
    "stated",
    "last",
)
TAIL = 20_000  # characters at the end of an answer in which its result is looked for
_MOST_CHARACTERS = 5_000  # of a result
_MOST_BOXES = 100  # at the end of the answer: one that never closes is read to its end each time

_MARKUP_AROUND = " \t\r\n*_#`~\"'“”‘’「」『』"
_COMMENT = re.compile(r"<!--[^>]{0,2000}-->")
# \text{…}, \mathrm{…}; the group is the content
_LATEX_TEXT = re.compile(
    r"\\(?:text|mathrm|mathbf|textbf|textit|mbox|rm|operatorname)\s*\{([^{}]*)\}"
)
# <answer>, <final_answer>, <|begin_of_answer|>, [ANSWER]
_OPENING_TAG = {
    "answer": re.compile(
        r"<\|?(?:begin_of_)?(?:final[_ -]?)?(?:answer|ans)\|?>|\[(?:FINAL[_ ]?)?ANSWER\]",
        re.IGNORECASE,
    ),
    "solution": re.compile(r"<\|?(?:begin_of_)?solution\|?>", re.IGNORECASE),
}
_CLOSING_TAG = {
    "answer": re.compile(
        r"<\|?(?:/|end_of_)(?:final[_ -]?)?(?:answer|ans)\|?>|\[/(?:FINAL[_ ]?)?ANSWER\]",
        re.IGNORECASE,
    ),
    "solution": re.compile(r"<\|?(?:/|end_of_)solution\|?>", re.IGNORECASE),
}
# \boxed{ or \fbox 42, without braces; the group is the content without braces
_BOX = re.compile(r"\\(?:boxed|fbox|framebox)\s*(?:\{|(-?\w[\w.,]*))")
# What joins two boxes into one result: "$ or $", ", ", \text{ and }
_BOX_JOINT = re.compile(
    r"[\s$,;、，]*(?:or|and|and/or|或者?|和|oder|und|ou|et|y|e|o|или|и|\\text\{ ?(?:or|and) ?\}|/)?[\s$]*",
    re.IGNORECASE,
)
_LONGEST_JOINT = 30  # characters
_HASH = re.compile(r"(?:^|\n|(?<=\s))####(?!#)[ \t]*([^\n]*)")
# {"answer": or , 'final_answer' :
_JSON_KEY = re.compile(
    r"[{,]\s*[\"'](?:final[_ ]?)?(?:answer|result|solution|choice|答案|最终答案|réponse|respuesta|antwort)[\"']\s*:\s*",
    re.IGNORECASE,
)
# 'Paris' in Python's quotes, or a bare word
_NOT_JSON = re.compile(r"'([^'\n]*)'|([^\s,}\]]+)")


@dataclass(frozen=True, slots=True)
class AnswerReading:
    """A result as it stands in the answer, and where; `explicit`: marked as the result, not only the last line."""

    text: str
    how: str
    explicit: bool


def read_answer(text: str, extractors: Sequence[Extractor] = DEFAULT) -> AnswerReading:
    """Return the result of the answer by the first extractor that finds one; an empty reading if none does."""
    tail = _COMMENT.sub(" ", text[-TAIL:])
    for name in extractors:
        find, how = _EXTRACTORS[name]
        result = find(tail)
        if result is None:
            continue
        if name in ("answer_tag", "solution_tag", "json", "hash"):
            # The result may be marked once more inside: <answer>So \boxed{42}</answer>.
            outer = _strip_markup(result)
            for inner_name in ("boxed", "hash", "json", "stated"):
                find, inner_how = _EXTRACTORS[inner_name]
                inner_result = find(outer) if inner_name in extractors else None
                if inner_result is not None:
                    result = inner_result
                    if inner_name != "stated":
                        how = inner_how
                    break
        return AnswerReading(_strip_markup(result), how, name not in ("last", "whole"))
    return AnswerReading("", f"none of {', '.join(extractors)}", False)


def _strip_markup(text: str) -> str:
    """Return the text without Markdown around it, LaTeX's \\text and the like, and a full stop at its end."""
    text = _LATEX_TEXT.sub(r"\1", text.strip()).strip(_MARKUP_AROUND).rstrip("。｡ ")
    if text.endswith(("..", "…")):
        return text
    return text.rstrip(".").strip(_MARKUP_AROUND)


# ---- the extractors ------------------------------------------------------------------------------------------------


def _find_in_tag(text: str, kind: str) -> str | None:
    """Return what follows the last opening tag, up to its closing tag or the end of the text."""
    opening = _find_last(_OPENING_TAG[kind], text)
    if opening is None:
        return None
    closing = _CLOSING_TAG[kind].search(text, opening.end())
    end = closing.start() if closing else len(text)
    return text[opening.end() : end].strip()


def _find_last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    last = None
    for match in pattern.finditer(text):
        last = match
    return last


def _find_boxed(text: str) -> str | None:
    """Return the content of the last \\boxed{…}, together with boxes before it that "or" or a comma joins to it."""
    parts: list[str] = []
    start = 0  # of the first box that is read so far
    for box in reversed(list(_BOX.finditer(text))[-_MOST_BOXES:]):
        content_and_end = _read_box(text, box)
        if content_and_end is None:  # it never closes
            if parts:
                break
            continue
        content, end = content_and_end
        if not parts:
            parts = [content]
        else:
            between = text[end:start]
            may_be_joined = end <= start and len(between) <= _LONGEST_JOINT
            if not may_be_joined or not _BOX_JOINT.fullmatch(between):
                break
            parts = [content, between.strip(" $\n") or ",", *parts]
        start = box.start()
    return " ".join(parts) if parts else None


def _read_box(text: str, box: re.Match[str]) -> tuple[str, int] | None:
    """Return what the box holds and where it ends; None if it never closes."""
    if box[1]:
        return box[1], box.end()
    depth = 1
    for i in range(box.end(), min(len(text), box.end() + _MOST_CHARACTERS)):
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return _LATEX_TEXT.sub(r"\1", text[box.end() : i]).strip(), i + 1
    return None


def _find_after_hash(text: str) -> str | None:
    """Return the text after the last ####; None if that is a heading and no result."""
    mark = _find_last(_HASH, text)
    if mark is None:
        return None
    line = mark[1].strip()
    # "#### Step 2" is a heading, with text below it: GSM8K's mark ends the answer.
    is_heading = len(text[mark.end() :].strip()) > 200 or line.rstrip("*_ ").endswith((":", "："))
    return line if line and not is_heading else None


def _find_in_json(text: str) -> str | None:
    """Return the value of the last key "answer" as text; items of a list are joined by commas."""
    key = _find_last(_JSON_KEY, text)
    if key is None:
        return None
    try:
        value, _ = json.JSONDecoder().raw_decode(text[key.end() : key.end() + _MOST_CHARACTERS])
    except (ValueError, RecursionError):  # Python's quotes, or no quotes
        literal = _NOT_JSON.match(text, key.end())
        if literal is None:
            return None
        return literal[2] if literal[1] is None else literal[1]
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _find_stated(text: str) -> str | None:
    """Return the rest of the line after the last statement, or the next line with words."""
    for end in reversed(find_statements(text)):
        for line in text[end:].split("\n", 8)[:8]:
            if any(map(str.isalnum, line)):
                return line[:_MOST_CHARACTERS].lstrip("> ")
    return None


def _find_last_line(text: str) -> str | None:
    lines = [line for line in text.splitlines() if any(map(str.isalnum, line))] or [text]
    return lines[-1].strip()[-_MOST_CHARACTERS:].lstrip("> ") or None


# For each extractor, the function that finds a result in a text, and how the verdict's reason calls the place.
_EXTRACTORS: dict[Extractor, tuple[Callable[[str], str | None], str]] = {
    "answer_tag": (lambda text: _find_in_tag(text, "answer"), "the last <answer>"),
    "solution_tag": (lambda text: _find_in_tag(text, "solution"), "the last <solution>"),
    "boxed": (_find_boxed, "the last \\boxed"),
    "hash": (_find_after_hash, "the last ####"),
    "json": (_find_in_json, "the JSON key"),
    "stated": (_find_stated, "the last statement"),
    "last": (_find_last_line, "the last line"),
    "whole": (lambda text: text.strip() or None, "the whole answer"),
}


# ---- how prose states, denies and hedges a result --------------------------------------------------------------------

_CHARACTERS_BEFORE = 40  # before a result, which are searched for a denial
_CHARACTERS_AFTER = 60  # after it

# ---- statements ----------------------------------------------------------------------------------------------------


def _join_words(words: Iterable[str]) -> str:
    """Write a pattern for one of the words, the longest first, so that 应该 is not read as 应."""
    return "|".join(sorted(set(words), key=len, reverse=True))


_WORDS = read_words("answer_words")
# Words for "is" in languages with spaces
_COPULAS = frozenset(_WORDS["copula"])
_NOUN = _join_words(_WORDS["noun"])  # answers?, solution, réponse …: a ? is part of the pattern
_SMALL_WORD = _join_words(map(re.escape, (*_WORDS["copula"], *_WORDS["filler"])))
# 答案, 正确答案, 정답 …: whole phrases, which may have spaces
_PHRASE = _join_words(re.escape(row[0]) for row in read_table("answer_phrases"))
_MARK = r"[*_`\"'”’)\]】」』#]"  # Markdown and closing marks that may follow a word
_MARKS = re.compile(r"[*_`\"'”’)\]#]+")
_COLON = r"(?:[:：=＝→⇒—–]|:\s?-)"
# Languages with spaces: a noun, up to eight small words, and perhaps a colon. "**Answer**, then, is:"
_SPACED = (
    rf"(?<!\w)(?P<noun>{_NOUN})(?!\w){_MARK}*+"
    rf"(?P<rest>(?:\s++(?:{_SMALL_WORD})(?!\w){_MARK}*+){{0,8}}+)"
    rf"\s*+(?P<colon>{_COLON}?)"
)
# Languages whose words are glued together, and phrases: 正确答案应该是, 答案：, 【答案】 B
_GLUED = (
    rf"(?P<glued>{_PHRASE}){_MARK}*+"
    rf"(?:\s?(?:{_join_words(_WORDS['glued_filler'])})){{0,3}}+"
    rf"(?:\s?(?:{_join_words(_WORDS['glued_copula'])}){_MARK}*+\s*+{_COLON}?"  # a word for "is"
    rf"|\s*+{_COLON}"
    r"|(?<=】)[ \t]*+(?=\S))"
)
STATED = re.compile(f"{_SPACED}|{_GLUED}", re.IGNORECASE)
"""A candidate for a statement. It also matches "the answer" alone; `find_statements` wants "is" or a colon, too."""
# A heading, alone on its line: "## Final answer", **答案**
_HEADING = re.compile(
    rf"(?:^|\n)[ \t#*_>【\[]*(?:(?:the|final|correct|最终|la|le)\s*+){{0,3}}"
    rf"(?:{_NOUN}|{_PHRASE})"
    r"[ \t#*_】\]:：]*+\n",
    re.IGNORECASE,
)

# ---- denial and doubt ----------------------------------------------------------------------------------------------

# "not", "rather than the", "eliminated option (", 不是选项: a denial that ends where the result begins
_DENIAL_BEFORE = re.compile(
    rf"(?:\b(?:{join_patterns('denial_word')})|{join_patterns('denial_sign')})"
    r"[\s*_(（\"'“‘「『$\\]*+"
    # an article, a noun or a word for "be" between the denial and the result
    r"(?:(?:the|a|an|la|le|el|die|der|das|o|il|option|answer|likely|be|es|é|è|fue|era|est|ist)\b"
    r"|选项|答案)?\s*+"
    r"[*_(（\"'“‘「『$]*+\Z",
    re.IGNORECASE,
)
# What follows a result that is called wrong: ") is clearly wrong", 项错误, "**: not this one", "は間違い"
_DENIAL_AFTER = re.compile(
    r"[*_)）\]】」』\"'”’`$:：]*+"
    r"(?P<stop>[.、,，][*_]*+)?\s*+"
    r"(?:选项|項|项|番|번|option)?\s*+"
    r"(?:is|are|was|were|est|es|é|è|ist|to|jest|är|er)?\s*+"
    r"(?:是|は|が|은|는|이|가|를|을)?\s*+"
    r"(?:clearly|also|simply|definitely|therefore|thus|la|una|le|都|均|也|都是)?\s*+"
    # Behind a stop, "not" begins what is denied next: "B, not A", 选B，不是A.
    rf"(?:(?(stop)not (?:correct|right|true)\b|(?:{join_patterns('not_after')})(?![a-z]))"
    rf"|{join_patterns('wrong')})",
    re.IGNORECASE,
)
# "Wait, …", "on second thought", 不对，: what stands before it no longer holds
RETRACTION = re.compile(
    r"\b(?:wait|actually|correction|i was wrong|scratch that|on second thought|no, |sorry|my mistake|let me correct)"
    r"|不对[，,]|不對[，,]|更正|其实|应该改为|我错了|抱歉|待って|訂正|아니[,，]|잠깐",
    re.IGNORECASE,
)
_OR = r"(?:or|oder|ou|o|u|eller|tai|или|або|lub|nebo|alebo|ili|sau|vagy|veya|ya da|atau|hoặc|หรือ|أو|या|ή|או)"
# What joins two results of which only one can be meant: ", or ", "(and/or", 或者, "/", "か" before a capital or a digit
ALTERNATIVE = re.compile(
    r"\s*+[,，、;]?\s*+"
    rf"(?:\(?\s*+(?<![^\W\d_])(?:and/or|{_OR})(?!\w)"
    r"|或者?|还是|還是|または|又は|もしくは|あるいは|か(?=[^\w]|[A-Z\d])|또는|혹은"
    r"|/|\||~|～|or perhaps|or maybe)"
    r"[\s*_(（$\\]*",
    re.IGNORECASE,
)


def find_statements(text: str) -> list[int]:
    """Return the positions after "answer is", "Answer:", "## Answer" and the like, where results begin, in order."""
    ends = []
    for match in STATED.finditer(text):
        words = _MARKS.sub("", match[0].casefold()).split()
        has_copula = not _COPULAS.isdisjoint(words[1:])  # a word for "is" after the noun
        if match["glued"] or match["colon"] or has_copula:
            ends.append(match.end())
    ends += [match.end() for match in _HEADING.finditer(text)]
    return sorted(set(ends))


def is_denied(text: str, start: int, end: int | None = None) -> bool:
    """Is what stands at text[start:end] denied: "not X", 不是X; "X is wrong", X错误?

    Without `end`, only what stands before it is searched for a denial.
    """
    if _DENIAL_BEFORE.search(text[max(0, start - _CHARACTERS_BEFORE) : start]):
        return True
    return end is not None and _DENIAL_AFTER.match(text[end : end + _CHARACTERS_AFTER]) is not None


def cut_retracted(text: str) -> str:
    """Return the text after the last "wait", "actually" or 更正; the whole text if there is none."""
    end = 0
    for retraction in RETRACTION.finditer(text):
        end = retraction.end()
    return text[end:]
