"""How prose states an answer ("the answer is", 答案是, la réponse est), and how it denies or hedges one.

>>> [text[end:] for text in ["So the final answer is 42.", "正解はB"] for end in find_statements(text)]
['42.', 'B']
>>> is_denied("It is not", 9), is_denied("It is", 5)
(True, False)

The words of some thirty languages stand in data/answer_words.tsv, data/answer_phrases.tsv and data/answer_patterns.tsv;
a language is added by adding its words there. All patterns take time proportional to the text: where several parts that
match spaces follow each other, they match possessively (`\\s*+`), because five plain `\\s*` in a row took seconds to
fail on forty line breaks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rubrank.verifiers.shared.word_tables import join_patterns, read_table, read_words

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
# A heading on a line of its own: "## Final answer", **答案**
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
