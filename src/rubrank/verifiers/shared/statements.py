"""How prose states an answer ("the answer is", 答案是, la réponse est), and how it denies or hedges one.

>>> [text[end:] for text in ["So the final answer is 42.", "正解はB"] for end in find_statements(text)]
['42.', 'B']
>>> is_denied("It is not", 9), is_denied("It is", 5)
(True, False)

The words of some thirty languages stand in data/answer_words.tsv and data/answer_phrases.tsv; a language is added by
adding its words there. All patterns take time proportional to the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rubrank.verifiers.shared.word_tables import read_table, read_words


def _longest_first(words: Iterable[str]) -> list[str]:
    return sorted(set(words), key=len, reverse=True)


_WORDS = read_words("answer_words")
_NOUN = "|".join(_longest_first(_WORDS["noun"]))
_COPULAS = frozenset(_WORDS["copula"])
_SMALL_WORD = "|".join(map(re.escape, _longest_first((*_WORDS["copula"], *_WORDS["filler"]))))
_PHRASE = "|".join(
    re.escape(phrase) for phrase in _longest_first(row[0] for row in read_table("answer_phrases"))
)
_MARK = r"[*_`\"'”’)\]】」』#]"
_COLON = r"(?:[:：=＝→⇒—–]|:\s?-)"
# A noun, a few small words, and then a colon or a word for "is".
_SPACED = (
    rf"(?<!\w)(?P<noun>{_NOUN})(?!\w){_MARK}*+"
    rf"(?P<rest>(?:\s++(?:{_SMALL_WORD})(?!\w){_MARK}*+){{0,8}}+)"
    rf"\s*+(?P<colon>{_COLON}?)"
)
_GLUED = (
    rf"(?P<glued>{_PHRASE}){_MARK}*+"
    r"(?:\s?(?:应该|應該|应当|应|應|就|即|便|选项|选择|的选项|最终|最后|الصحيحة|النهائية|الصحيح|النهائي|सही|đúng"
    r"|ที่ถูกต้อง"
    r"|הנכונה|הסופית)){0,3}+"
    rf"(?:\s?(?:是|为|為|等于|选|選|乃|は|が|이|가|은|는|là|คือ|هي|هو|है|হলো|হল|היא|הוא){_MARK}*+"
    rf"\s*+{_COLON}?|\s*+{_COLON}|(?<=】)[ \t]*+(?=\S))"
)
STATED = re.compile(f"{_SPACED}|{_GLUED}", re.IGNORECASE)
_HEADING = re.compile(
    rf"(?:^|\n)[ \t#*_>【\[]*(?:(?:the|final|correct|最终|la|le)\s*+){{0,3}}"
    rf"(?:{_NOUN}|{_PHRASE})"
    r"[ \t#*_】\]:：]*+\n",
    re.IGNORECASE,
)


def find_statements(text: str) -> list[int]:
    """The positions after "answer is", "Answer:", "## Answer" and the like, where results begin, in order."""
    ends = []
    for match in STATED.finditer(text):
        if match["glued"] or match["colon"] or _has_copula(match[0]):
            ends.append(match.end())
    ends += [match.end() for match in _HEADING.finditer(text)]
    return sorted(set(ends))


def _has_copula(statement: str) -> bool:
    """Does a word for "is" follow the noun?"""
    words = re.sub(r"[*_`\"'”’)\]#]+", "", statement.casefold()).split()
    return not _COPULAS.isdisjoint(words[1:])


# ---- denial and doubt ----------------------------------------------------------------------------------------------

_DENIAL_BEFORE = re.compile(
    r"(?:\b(?:not|never|no|isn['’]?t|aren['’]?t|wasn['’]?t|cannot be|can['’]?t be|neither|nor|rather than|instead of"
    r"|other than|except|excluding|eliminat(?:e|ed|ing)|rul(?:e|ed|ing) out|reject(?:ed|ing)?|discard(?:ed)?|unlike"
    r"|pas|ni|jamais|plutôt que|no|não|nem|non|né|nicht|keine?|statt|anstatt|niet|geen|inte|ikke|ej|ei|не|нет|ні"
    r"|nie|nu|nem|değil|bukan|tidak|không phải|không|ไม่ใช่|ليس|ليست|لا|नहीं)"
    r"|不是|并非|並非|而非|不等于|不选|不選|不应选|不能选|不会是|不可能是|没有|排除|非|≠|\\neq?|!=)"
    r"[\s*_(（\"'“‘「『$\\]*+(?:(?:the|a|an|la|le|el|die|der|das|o|il|option|answer|likely|be|es|é|è|fue"
    r"|era|est|ist)\b|选项|答案)?\s*+"
    r"[*_(（\"'“‘「『$]*+\Z",
    re.IGNORECASE,
)
# Spaces are matched possessively (`*+`): with five plain `\s*` in a row, forty line breaks took seconds.
_DENIAL_AFTER = re.compile(
    r"[*_)）\]】」』\"'”’`$:：]*+(?P<stop>[.、,，][*_]*+)?\s*+(?:选项|項|项|番|번|option)?\s*+(?:is|are|was|were|est|es|é|è|ist|to"
    r"|jest|är|er)?"
    r"\s*+(?:是|は|が|은|는|이|가|를|을)?\s*+(?:clearly|also|simply|definitely|therefore|thus|la|una|le|都|均|也"
    r"|都是)?\s*+"
    # Behind a stop, "not" begins what is denied: "B, not A", 选B，不是A.
    r"(?:(?(stop)not (?:correct|right|true)\b|(?:not|n['’]t|never|cannot|can['’]?t|doesn['’]?t|不是|不能|不选|没有"
    r"|n['’]est pas|no es|não é|non è|ist nicht|не\s|không|ليس|ไม่)(?![a-z]))"
    r"|isn['’]?t\b|(?:wrong|incorrect|false)\b(?!\s++(?:options?|answers?|choices?|ones|statements?)\b)|ruled out\b"
    r"|eliminated\b|faux\b|fausse\b|falsch\b|falsa\b|falso\b"
    r"|incorrect[oae]\b|sbagliata\b|errada\b|errónea\b|fout\b|onjuist\b|fel\b|невер|неправильн|ошибочн"
    r"|错|錯|误|誤|不对|不對|不正确|不正確|不成立|不符|不合|排除(?![A-Za-z])|間違|違う|違い|正しくな|ではな|じゃな"
    r"|오답|틀|아니|아닙|yanlış|salah\b|sai\b|ผิด|خطأ|خاطئ|गलत|नहीं|❌|✗|✘)",
    re.IGNORECASE,
)
RETRACTION = re.compile(
    r"\b(?:wait|actually|correction|i was wrong|scratch that|on second thought|no, |sorry|my mistake|let me correct)"
    r"|不对[，,]|不對[，,]|更正|其实|应该改为|我错了|抱歉|待って|訂正|아니[,，]|잠깐",
    re.IGNORECASE,
)
OR = r"(?:or|oder|ou|o|u|eller|tai|или|або|lub|nebo|alebo|ili|sau|vagy|veya|ya da|atau|hoặc|หรือ|أو|या|ή|או)"
ALTERNATIVE = re.compile(
    rf"\s*+[,，、;]?\s*+(?:\(?\s*+(?<![^\W\d_])(?:and/or|{OR})(?!\w)|或者?|还是|還是|または|又は|もしくは|あるいは|か(?=[^\w]|[A-Z\d])"
    r"|또는|혹은|/|\||~|～|or perhaps|or maybe)[\s*_(（$\\]*",
    re.IGNORECASE,
)
"""What joins two results of which only one can be meant."""


def is_denied(text: str, start: int, end: int | None = None) -> bool:
    """Is what stands at text[start:end] denied: "not X", 不是X; "X is wrong", X错误?"""
    if _DENIAL_BEFORE.search(text[max(0, start - 40) : start]):
        return True
    return end is not None and _DENIAL_AFTER.match(text[end : end + 60]) is not None


def after_retraction(text: str) -> str:
    """The text after the last "wait", "actually" or 更正; the whole text if there is none."""
    end = 0
    for retraction in RETRACTION.finditer(text):
        end = retraction.end()
    return text[end:]
