"""Which option an answer chooses: "A is correct.", "the answer is b", D项正确, （A）错误；（B）正确, "I'd go with C".

>>> find_choice("所以答案是B。"), find_choice("(A) is wrong; (B) is right.")
(Choice(letters='B', how='the last statement'), Choice(letters='B', how='what is called right'))

Tried in this order: a marked result (tags, \\\\boxed, ####, JSON); a statement ("answer is", "I choose", 故选); what is
called right ("B is correct"); a letter alone on the last or the first line; the only option in brackets; the last
capital. What is denied ("not A", "A is wrong", 排除A) is never chosen. Several letters mean that several were named.
"""

from __future__ import annotations

import re
import string
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rubrank._plain import clean
from rubrank.verifiers.shared.answers import DEFAULT, TAIL, Extractor, read_answer
from rubrank.verifiers.shared.statements import (
    RETRACTION,
    STATED,
    after_retraction,
    find_statements,
    is_denied,
)

_LATIN = "A-Za-zÀ-ɏ0-9"
_OPEN = r"[(（\[【「<{\\$*_\"“'‘`\s]"
_SHUT = r"[)）\]】」>}$*_\"”'’`\s]"
_JOINT = (
    r"(?:\s*(?:,|，|、|/|&|\+|;|和|与|與|及|或者?|と|または|、と|와|과|또는"
    r"|(?<=[\s*)）])(?:and|or|y|o|et|ou|und|oder|e|и|или)(?=[\s*(（]))\s*){1,2}"
)
_WORD = (
    r"(?:(?:the\s+)?(?:option|choice|letter|answer|opción|letra|alternativa|lettre|opzione|lettera|buchstabe"
    r"|вариант|seçenek|şık|phương án|câu|pilihan|opsi|ข้อ|선택지|보기)\s+|选项\s*|选择\s*|第?)"
)
_MOST_MENTIONS = 500  # of options that are read in one answer: each takes almost a millisecond


@dataclass(frozen=True, slots=True)
class Choice:
    """The letters chosen, sorted ("" if none), and where they were found."""

    letters: str
    how: str


# Cyrillic and Greek letters that look like Latin ones.
_LOOKALIKES = dict(
    zip("АВСЕНКМОРТХавсеорхΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ABCEHKMOPTXabceopxABEZHIKMNOPTYX", strict=True)
)
_LOOKALIKE = re.compile(rf"(?<!\w)[{''.join(_LOOKALIKES)}](?!\w)")
# Full-width and circled letters.
_WIDE = {0x1F170: "A", 0x1F171: "B"}
for _i, (_capital, _small) in enumerate(
    zip(string.ascii_uppercase, string.ascii_lowercase, strict=True)
):
    _WIDE |= {ord("Ａ") + _i: _capital, ord("ａ") + _i: _small, ord("Ⓐ") + _i: _capital}


def _plain_letters(text: str, options: str) -> str:
    """Replace full-width and circled letters, and single Cyrillic or Greek letters that look like Latin ones.

    A letter that is itself one of the options is not changed.
    """
    text = text.translate(_WIDE)
    if text.isascii():
        return text

    def replace(match: re.Match[str]) -> str:
        is_option = match[0].upper() in options
        return match[0] if is_option else _LOOKALIKES[match[0]]

    return _LOOKALIKE.sub(replace, text)


_BETWEEN_LETTERS = re.compile(
    rf"(?<![{_LATIN}])(?:and|or|et|ou|und|oder|option|choice|the|letter|answer)(?![{_LATIN}])"
)


@dataclass(frozen=True, slots=True)
class _Mention:
    """Options that a text mentions together: "A", "(b)", "A, C and D", "ACD"."""

    letters: str
    """Upper case and sorted."""
    first: str
    """The first letter as written; "" for a run such as "ACD"."""
    start: int
    end: int
    after_first: int
    """Where the first letter ends."""
    in_brackets: bool


class _MentionFinder:
    """Finds the mentions of these options in a text."""

    def __init__(self, options: str) -> None:
        self.options = options.upper()
        either = re.escape(self.options + self.options.lower())
        end = rf"(?![{_LATIN}]|['’][a-z]|\.[a-z])"
        first = (
            rf"(?<![{_LATIN}'’.°^/-]){_OPEN}{{0,6}}(?P<first>(?<![{_LATIN}°^/-])[{either}]){end}"
        )
        later = rf"{_WORD}?{_OPEN}{{0,4}}[{either}]{end}"
        self._pattern = re.compile(
            rf"(?:{first}|(?<![{_LATIN}])(?P<run>[{re.escape(self.options)}]{{2,6}})(?![{_LATIN}]))"
            rf"(?P<more>(?:{_SHUT}{{0,3}}{_JOINT}{later}){{0,9}})"
        )

    def find_all(self, text: str) -> Iterator[_Mention]:
        """The mentions in order; if there are too many, the last ones."""
        return map(self._read, deque(self._pattern.finditer(text), maxlen=_MOST_MENTIONS))

    def match(self, text: str, position: int) -> _Mention | None:
        """The mention that begins at this position."""
        match = self._pattern.match(text, position)
        return None if match is None else self._read(match)

    def _read(self, match: re.Match[str]) -> _Mention:
        group = "run" if match["run"] else "first"
        written = match[group]
        if group == "first":
            written += _BETWEEN_LETTERS.sub(" ", match["more"] or "")
        return _Mention(
            letters="".join(sorted({char for char in written.upper() if char in self.options})),
            first=match["first"] or "",
            start=match.start(group),
            end=match.end("more") if match["more"] else match.end(group),
            after_first=match.end(group),
            in_brackets="(" in match[0],
        )


_finder = lru_cache(maxsize=64)(_MentionFinder)


_CHOOSE = re.compile(
    r"(?:\b(?:(?:corresponds? to|match(?:es)?|(?:this|that|which|it) is|closest to) (?:the )?(?:option|choice|answer)"
    r"|choose|chose|pick|picked|select|selected|go(?:ing)? (?:with|for)|opt(?:ing)? for|choice is|option "
    r"is|settle on"
    r"|lean (?:towards?|to)|vote for|choisis|choisir|elijo|elegir|escojo|selecciono|marque|marco|escolho|scelgo"
    r"|wähle|nehme"
    r"|kies|väljer|выбираю|выбрать|обираю|wybieram|vyberu|seçiyorum|chọn|pilih|memilih|correct one is|right one is"
    r"|(?:correct|right|best) (?:option|choice|answer|alternative|statement)(?: here)? (?:is|would be)|must be"
    r"|has to be"
    r"|(?:opción|alternativa|opzione) (?:correcta|correta|corretta)(?: (?:es|é|è))?|richtig ist|correcte est"
    r"|(?:richtige|korrekte) (?:option|antwort) ist)|故选|应选|應選|所以选|因此选|我选|本题选|正确选项|正确的选项"
    r"|正确的是|選|选择|选|เลือก|ตอบ|اختار|اختر|선택)"
    r"(?:\s*(?:项|项是|项为|项目|肢))?(?:\s+(?:the|la|le|el|die|option|letter|opción|letra|lettre|answer|choice))*"
    r"\s*[:：=是为為은는は]*\s*[*_]*\s*\Z",
    re.IGNORECASE,
)
# "Wait, actually it is …": the letter that follows replaces the earlier one.
_CORRECTED = re.compile(
    rf"(?:{RETRACTION.pattern})[\s,，.…!—-]*+(?:actually|no|不对)?[\s,，]*+"
    r"(?:it(?:['’]s| is| should be| must be| has to be)|应该是|应该选|应为|应选|是)\s*+\Z",
    re.IGNORECASE,
)
_RIGHT = re.compile(
    r"[*_)）\]】」』\"'”’`$.、,，:：]*+\s*+(?:选项|選項|項|项|肢|番|번|option)?\s*+"
    r"(?:(?:is|are|was|must be|would be|should be|has to be|seems|looks|est|es|é|è|ist|är|er|to|jest|je|là|adalah)\b)?"
    r"\s*+(?:是|为|為|才|才是|が|は|이|가|은|는)?\s*+"
    r"(?:clearly|definitely|thus|therefore|indeed|the|my|la|le|el|die|das|a|o|il|最|all|both|都|均|也|也是|also|auch|aussi|también)*\s*+"
    r"(?:correct|right|true|best|final answer|answer\b|accurate|valid|correcte|juste|vraie?|la bonne|bonne réponse"
    r"|correct[oa]|correta|corretta|certa|giusta|verdader[oa]|richtig|korrekt|wahr|die richtige|juist|goed\b"
    r"|rätt|riktig"
    r"|верн|правильн|вірн|prawidłow|poprawn|správn|doğru|đúng|benar\b|ถูก|صحيح|सही|sahihi|σωστ"
    r"|正确|正確|对(?!应|于|称)|對(?!應|於|稱)|成立|符合|正解|正しい|答え|맞|정답|옳|✓|✔|✅)",
    re.IGNORECASE,
)
_ALONE = re.compile(r"(?:option|choice|answer|选项|选)?\s*", re.IGNORECASE)
_ARTICLE = re.compile(
    r"\s+(?!because|since|as |for |and |or |is |due|given|which|with|by |porque|parce|weil|car )[a-zà-ÿ]"
)


def find_choice(
    text: str, options: str = "ABCDEFGHIJ", extractors: Sequence[Extractor] = DEFAULT
) -> Choice:
    """The options that the answer chooses, and where they were found; no letters if it chooses none."""
    finder = _finder(options)
    text = _plain_letters(clean(text[-TAIL:]), finder.options)
    marks = [name for name in extractors if name not in ("stated", "last", "whole")]
    reading = read_answer(text, marks)
    if reading.explicit:
        # A marked result is a letter, begins with one, or states one.
        inside = reading.text
        letters = (
            _find_on_a_line(inside, finder)
            or _find_stated(inside, finder)
            or _find_called_right(inside, finder)
        )
        # A marked value such as \\boxed{33.4} is no letter; "the correct option is B" beside it names one.
        if letters or not any(map(str.isalnum, inside)):
            return Choice(letters, reading.how)
        extractors = [name for name in extractors if name == "stated"]
    steps: list[tuple[Extractor, Callable[[str, _MentionFinder], str], str]] = [
        ("stated", _find_stated, "the last statement"),
        ("stated", _find_called_right, "what is called right"),
        ("last", _find_on_a_line, "a line of its own"),
        ("last", _find_in_brackets, "the only option in brackets"),
        ("last", _find_last_capital, "the last letter"),
    ]
    for extractor, find, how in steps:
        letters = find(text, finder) if extractor in extractors else ""
        if letters:
            return Choice(letters, how)
    return Choice("", f"none of {', '.join(extractors)}")


_WORDS_BETWEEN = frozenset(
    """|option|choice|letter|la|opción|letra|lettre|selection|选项|the option|la letra|la lettre|a letra|a alternativa
    |l'option|la opción|option letter|number|will be|still|indeed|opzione|la lettera|вариант""".replace(
        "\n    ", ""
    ).split("|")
)


def _find_stated(text: str, finder: _MentionFinder) -> str:
    """The letters after the last "answer is", "I choose" or 故选 that are not denied."""
    statements = find_statements(text)
    letters = ""
    is_chosen_among = False
    for mention in finder.find_all(text):
        window = max(0, mention.start - 80)
        before = text[window : mention.start].rstrip("(（[【「<{\\$*_\"“'‘` \n")
        end_of_words = window + len(before)
        is_stated = (
            any(end_of_words <= end <= mention.start for end in statements)
            or _CHOOSE.search(before) is not None
            or _CORRECTED.search(before) is not None
            or _ends_statement(text, end_of_words)
        )
        if text.startswith("中", mention.end):  # 答案是A、B、C、D中的B
            is_chosen_among = is_stated
            continue
        is_stated = is_stated or is_chosen_among
        is_chosen_among = False
        if (
            not is_stated
            or _is_word(text, mention)
            or _is_unit(text, mention)
            or _lists_options(text, mention, finder)
        ):
            continue
        if not is_denied(text, mention.start, mention.end):
            letters = mention.letters
        elif _is_first_chosen(text, mention):
            letters = mention.first.upper()
    return letters


def _is_first_chosen(text: str, mention: _Mention) -> bool:
    """Does the denial concern a later letter and not the first: "B; A is wrong", 选B，A错误?"""
    other_letters = text[mention.after_first : mention.end].lstrip(")）*_ ")
    if not mention.first or not other_letters.startswith((",", ";", "，", "、")):
        return False
    is_plural = re.match(r"\W*(?:are|were|都|均)", text[mention.end : mention.end + 20])
    return is_plural is None and not is_denied(text, mention.start, mention.after_first)


def _ends_statement(text: str, position: int) -> bool:
    """Does a statement such as "the correct answer, then, is option" end here? A few words may stand between."""
    statements = list(STATED.finditer(text, max(0, position - 60), position))
    if not statements:
        return False
    return text[statements[-1].end() : position].strip().casefold() in _WORDS_BETWEEN


def _is_word(text: str, mention: _Mention) -> bool:
    """Is the letter a word: "a dog", "I think", Spanish "o", Italian "e"?"""
    if mention.first not in tuple("AIaieoyuàé"):
        return False
    sign = text[mention.after_first : mention.after_first + 1]
    if sign in (")", "）", "]", "】", ".", ":", "："):
        return False
    return _ARTICLE.match(text, mention.after_first) is not None


_MEASURED = re.compile(
    r"\d\s*(?:\\?,|~)?\s*(?:degrees?|deg\.?|°)?\s*(?:\\(?:text|mathrm|rm)\s*\{?)?\s*\Z"
)
_NAMED = re.compile(
    r"\b(?:vitamin|hepatitis|plan|type|grade|class|group|point|phase|factor|schedule|team|side|line|curve|block|sample"
    r"|figure|appendix|section|part|step|table|model|company|city|person|case|example|direction)s?\s\Z",
    re.IGNORECASE,
)


def _is_unit(text: str, mention: _Mention) -> bool:
    """Is the letter a unit (3 C, 40 °F, Btu/lb-F) or part of a name (vitamin C)?"""
    if mention.in_brackets:
        return False
    before = text[max(0, mention.start - 30) : mention.start]
    return _MEASURED.search(before) is not None or _NAMED.search(before) is not None


def _lists_options(text: str, mention: _Mention, finder: _MentionFinder) -> bool:
    """Does a list of the options begin here: "A. ①② B. ①③ …"?"""
    sign = text[mention.end : mention.end + 1]
    place = finder.options.find(mention.letters)
    if (
        len(mention.letters) != 1
        or sign not in (".", "．", "、", ":", "：", ")", "）")
        or place < 0
    ):
        return False
    following = finder.options[place + 1 : place + 2]
    if not following:
        return False
    next_option = rf"\s[(（]?{following}{re.escape(sign)}\s?[^\s]"
    return re.search(next_option, text[mention.end : mention.end + 300]) is not None


def _ends_list(text: str, mention: _Mention, finder: _MentionFinder) -> bool:
    """Does the previous option stand before this one, with the same sign: "A. ①② B. ①③"?"""
    sign = text[mention.end : mention.end + 1]
    place = finder.options.find(mention.letters)
    if (
        len(mention.letters) != 1
        or sign not in (".", "．", "、", ":", "：", ")", "）")
        or place < 1
    ):
        return False
    before = text[max(0, mention.start - 300) : mention.start]
    # "It isn't A. It's B." is no list: before the second option, "A." must begin a line or follow a heading.
    start = r"(?:^|[】:：])\s*" if place == 1 else r"(?<!\w)"
    previous_option = f"{start}{finder.options[place - 1]}{re.escape(sign)}"
    return re.search(previous_option, before, re.MULTILINE) is not None


def _find_called_right(text: str, finder: _MentionFinder) -> str:
    """All letters that are called right and not denied, after the last retraction ("wait", "actually")."""
    text = after_retraction(text)
    letters: set[str] = set()
    for mention in finder.find_all(text):
        if is_denied(text, mention.start, mention.end):
            continue
        # A small "a" or "i" is more likely a word than an option.
        if mention.first.islower() and mention.first not in "bcdefgh":
            continue
        if _RIGHT.match(text, mention.end):
            letters.update(mention.letters)
    return "".join(sorted(letters))


def _find_on_a_line(text: str, finder: _MentionFinder) -> str:
    """The letters that the last line (or else the first) consists of or begins with: "B", "(b)", "B. Paris"."""
    lines = [line.strip() for line in text.splitlines() if any(map(str.isalnum, line))]
    if not lines:
        return ""
    last = _read_line(lines[-1], finder)
    if last and (len(lines) == 1 or not _read_line(lines[-2], finder)):
        return last
    first = _read_line(lines[0], finder)
    if first and (len(lines) == 1 or not _read_line(lines[1], finder)):
        return first
    return ""  # several lines begin with a letter: they list the options


def _read_line(line: str, finder: _MentionFinder) -> str:
    """The letters that a line begins with, if an option's text or nothing follows them."""
    line = line.strip().lstrip("#>*-_ \t")
    opening = _ALONE.match(line)
    mention = finder.match(line, opening.end() if opening else 0)
    if mention is None or (opening and opening.end() > 8) or _is_word(line, mention):
        return ""
    if _lists_options(line, mention, finder):
        return ""
    rest = line[mention.end :].lstrip()
    sign = line[mention.end : mention.end + 1]
    if not rest.strip(")）]】」>}$*_\"”'’`.。!！ "):
        return mention.letters
    if sign in ").:：、）．.】]," and not is_denied(line, 0, mention.end):
        return mention.letters
    return ""


def _find_in_brackets(text: str, finder: _MentionFinder) -> str:
    """The options in brackets that nothing denies."""
    letters = set()
    for match in re.finditer(r"[(（【\[]\s*([A-Za-z])\s*[)）】\]]", text):
        if match[1].upper() in finder.options and not is_denied(text, match.start(), match.end()):
            letters.add(match[1].upper())
    return "".join(sorted(letters))


# The letter stands for a quantity: "E = mc^2", "the field B is 3 T".
_SYMBOL_AFTER = re.compile(r"\s?(?:[=≈<>≤≥^_]|(?:is|was|equals)\s[-−]?[\d\\$])")


def _find_last_capital(text: str, finder: _MentionFinder) -> str:
    """The last capital letter that names an option and stands alone; not "A" and "I" as words."""
    letters = ""
    for mention in finder.find_all(text):
        if not mention.first.isupper() or _is_word(text, mention):
            continue
        is_pronoun = mention.first == "I" and not mention.in_brackets
        if is_pronoun and re.match(r"[.):]\s", text[mention.end : mention.end + 2]) is None:
            continue
        if (
            _is_unit(text, mention)
            or _SYMBOL_AFTER.match(text, mention.end)
            or _lists_options(text, mention, finder)
            or _ends_list(text, mention, finder)
        ):
            continue
        if not is_denied(text, mention.start, mention.end):
            letters = mention.letters
    return letters


_OPTION_LINE = re.compile(
    r"(?:^|\n|(?<=\s))[(（\[]?([A-Z])[)）\].:：、．]\s*([^\n]{1,300}?)(?=\s*(?:\n|$|[(（\[]?[A-Z][)）\].:：、．]\s))"
)


def find_option_texts(question: str, options: str = "ABCDEFGHIJ") -> dict[str, str]:
    """The texts of the options that a question lists: {"A": "Paris", …}."""
    texts = {}
    for match in _OPTION_LINE.finditer(question[-TAIL:]):
        if match[1] in options.upper():
            texts[match[1]] = match[2].strip()
    return texts
