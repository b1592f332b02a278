"""Which option an answer chooses: "A is correct.", "the answer is b", D项正确, （A）错误；（B）正确, "I'd go with C".

>>> find_choice("所以答案是B。"), find_choice("(A) is wrong; (B) is right.")
(Choice(letters='B', how='the last statement'), Choice(letters='B', how='what is called right'))

These are tried in order; the first that gives a letter wins:

    1. a marked result               tags, \\\\boxed, ####, JSON
    2. _find_stated                  "answer is", "I choose", 故选
    3. _find_called_right            "B is correct"
    4. _find_on_a_line               a letter alone on the last or the first line
    5. _find_in_brackets             the options in brackets
    6. _find_last_capital            the last capital that stands alone

What is denied ("not A", "A is wrong", 排除A) is never chosen. Several letters mean that several were named.

Every step looks at the mentions of options (`_Mention`) and at the text before and after each. The patterns below stand
in this order: what a mention looks like, what stands before a chosen one, what stands behind it, and letters that are
no options. Words such as "choose" and "is correct" in all languages are in data/answer_patterns.tsv.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rubrank._plain import replace_surrogates
from rubrank.verifiers.shared.answers import (
    DEFAULT,
    RETRACTION,
    TAIL,
    Extractor,
    cut_retracted,
    find_statements,
    is_denied,
    read_answer,
)
from rubrank.verifiers.shared.word_tables import join_patterns

_MOST_MENTIONS = 500  # read in one answer, because each takes almost a millisecond
# Characters around a letter that are searched. Set by hand, with room to spare for the longest phrase.
_BEFORE_CHOICE = 80  # for "I'd go with the", 正确的是, with marks in between
_BEFORE_UNIT = 30  # for a number ("25~\\mathrm{") or a name ("vitamin ")
_AFTER_OPTION = 300  # for the next option of a list: the text of an option is shorter

# ---- the patterns of a mention: "A", "(b)", "A, C and D", "ACD" ------------------------------------------------

_LATIN = "A-Za-zÀ-ɏ0-9"
# Brackets, quotes, Markdown, LaTeX and spaces around a letter: characters to strip, and patterns of one of them
_OPENING_CHARACTERS = "(（[【「<{\\$*_\"“'‘` \n"
_OPENING_MARK = rf"[{re.escape(_OPENING_CHARACTERS)}\s]"
_CLOSING_MARK = r"[)）\]】」>}$*_\"”'’`\s]"
# What joins two letters: "A, B", "A and B", A和B. One or two of them, for ", and".
_JOINT = (
    r"(?:\s*(?:,|，|、|/|&|\+|;|和|与|與|及|或者?|と|または|、と|와|과|또는"
    r"|(?<=[\s*)）])(?:and|or|y|o|et|ou|und|oder|e|и|или)(?=[\s*(（]))\s*){1,2}"
)
# A noun before a later letter: "A or option B", 选项A和选项B
_OPTION_NOUN = (
    r"(?:(?:the\s+)?(?:option|choice|letter|answer|opción|letra|alternativa|lettre|opzione|lettera|buchstabe"
    r"|вариант|seçenek|şık|phương án|câu|pilihan|opsi|ข้อ|선택지|보기)\s+|选项\s*|选择\s*|第?)"
)
# Words between joined letters whose own letters are no options: the "d" of "A and C"
_WORDS_IN_MENTION = re.compile(
    rf"(?<![{_LATIN}])(?:and|or|et|ou|und|oder|option|choice|the|letter|answer)(?![{_LATIN}])"
)

# Cyrillic and Greek letters that look like Latin ones, where they stand alone; full-width and circled letters
_LOOKALIKES = dict(
    zip("🅰🅱АВСЕНКМОРТХавсеорхΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ABABCEHKMOPTXabceopxABEZHIKMNOPTYX", strict=True)
)
_LOOKALIKE = re.compile(rf"(?<!\w)[{''.join(_LOOKALIKES)}](?!\w)|[Ａ-Ｚａ-ｚⒶ-Ⓩ]")

# ---- what stands before a chosen letter -------------------------------------------------------------------------

# "I'd go with the", "the best choice is:", 故选, 正确的是: ends where the letter begins
_CHOOSE = re.compile(
    rf"(?:\b(?:{join_patterns('choose_word')})|{join_patterns('choose_sign')})"
    r"(?:\s*(?:项|项是|项为|项目|肢))?"
    r"(?:\s+(?:the|la|le|el|die|option|letter|opción|letra|lettre|answer|choice))*"
    r"\s*[:：=是为為은는は]*\s*[*_]*\s*\Z",
    re.IGNORECASE,
)
# "Wait, actually it is", 更正，应该是: the letter that follows replaces the earlier one
_CORRECTED = re.compile(
    rf"(?:{RETRACTION.pattern})[\s,，.…!—-]*+(?:actually|no|不对)?[\s,，]*+"
    r"(?:it(?:['’]s| is| should be| must be| has to be)|应该是|应该选|应为|应选|是)\s*+\Z",
    re.IGNORECASE,
)
# What may stand between "the answer is" and the letter
_WORDS_BETWEEN = frozenset(
    (
        "",
        *("option", "choice", "letter", "selection", "number", "the option", "option letter"),
        *("will be", "still", "indeed"),
        *("lettre", "la", "la lettre", "l'option"),
        *("opción", "letra", "la letra", "la opción", "a letra", "a alternativa"),
        *("opzione", "la lettera", "вариант", "选项"),
    )
)
# "Option B", "选 B" at the beginning of a line
_LINE_LABEL = re.compile(r"(?:option|choice|answer|选项|选)?\s*", re.IGNORECASE)
_LONGEST_LABEL = 8  # characters of such a label with its spaces

# ---- what stands after a letter ---------------------------------------------------------------------------------

# ") is clearly correct", 项正确, "が正解": the letter is called right. Each part but the last may be missing.
_CALLED_RIGHT = re.compile(
    # marks that close the mention: ")", "**", ":"
    r"[*_)）\]】」』\"'”’`$.、,，:：]*+\s*+"
    # what the letter is: "option", 项, 番
    r"(?:选项|選項|項|项|肢|番|번|option)?\s*+"
    # a verb: "is", "must be", "seems", "est", "ist"
    r"(?:(?:is|are|was|must be|would be|should be|has to be|seems|looks"
    r"|est|es|é|è|ist|är|er|to|jest|je|là|adalah)\b)?\s*+"
    # a verb or particle of a language without spaces: 是, が, 은
    r"(?:是|为|為|才|才是|が|は|이|가|은|는)?\s*+"
    # adverbs and articles: "clearly", "also the", 都
    r"(?:clearly|definitely|thus|therefore|indeed|also|the|my|all|both"
    r"|la|le|el|die|das|a|o|il|auch|aussi|también|最|都|均|也|也是)*\s*+"
    # "correct", "the best choice", 正确
    rf"(?:{join_patterns('right')})",
    re.IGNORECASE,
)
# "a dog": a small letter that is no conjunction follows, so the "a" is a word. "A because …" is an option.
_NEXT_WORD = re.compile(
    r"\s+(?!because|since|as |for |and |or |is |due|given|which|with|by |porque|parce|weil|car )[a-zà-ÿ]"
)
# "E = mc^2", "the field B is 3 T": the letter stands for a quantity
_SYMBOL_AFTER = re.compile(r"\s?(?:[=≈<>≤≥^_]|(?:is|was|equals)\s[-−]?[\d\\$])")
# "; A is wrong" after B, which is not denied then; not ", A are wrong"
_ANOTHER_DENIED = re.compile(r"[)）*_ ]*[,;，、](?!.{0,20}(?:\b(?:are|were)\b|[都均]))")
_LIST_SIGNS = (".", "．", "、", ":", "：", ")", "）")

# ---- letters that are units or names ----------------------------------------------------------------------------

# "3 ", "40 °", "25~\mathrm{": a number before the letter
_NUMBER_BEFORE = re.compile(
    r"\d\s*(?:\\?,|~)?\s*(?:degrees?|deg\.?|°)?\s*(?:\\(?:text|mathrm|rm)\s*\{?)?\s*\Z"
)
# "vitamin C", "point B"
_NAME_BEFORE = re.compile(
    r"\b(?:vitamin|hepatitis|plan|type|grade|class|group|point|phase|factor|schedule|team|side|line|curve|block|sample"
    r"|figure|appendix|section|part|step|table|model|company|city|person|case|example|direction)s?\s\Z",
    re.IGNORECASE,
)
_IN_BRACKETS = re.compile(r"[(（【\[]\s*([A-Za-z])\s*[)）】\]]")
# A line of a question that lists its options, "A. Paris" or "(B) Rome"; the text ends where the next option begins.
_OPTION_LINE = re.compile(
    r"(?:^|\n|(?<=\s))[(（\[]?([A-Z])[)）\].:：、．]\s*"
    r"([^\n]{1,300}?)"
    r"(?=\s*(?:\n|$|[(（\[]?[A-Z][)）\].:：、．]\s))"
)


@dataclass(frozen=True, slots=True)
class Choice:
    """The letters chosen, sorted ("" if none), and where they were found."""

    letters: str
    how: str


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
        either_case = re.escape(self.options + self.options.lower())
        # A letter ends a word: not "Apple", "I'm" or "e.g."
        end = rf"(?![{_LATIN}]|['’][a-z]|\.[a-z])"
        # Not the C of "°C", the b of "a/b" or the B of "vitamin-B"
        first = (
            rf"(?<![{_LATIN}'’.°^/-]){_OPENING_MARK}{{0,6}}"
            rf"(?P<first>(?<![{_LATIN}°^/-])[{either_case}]){end}"
        )
        run = rf"(?<![{_LATIN}])(?P<run>[{re.escape(self.options)}]{{2,6}})(?![{_LATIN}])"
        later = rf"{_OPTION_NOUN}?{_OPENING_MARK}{{0,4}}[{either_case}]{end}"
        more = rf"(?P<more>(?:{_CLOSING_MARK}{{0,3}}{_JOINT}{later}){{0,9}})"
        self._pattern = re.compile(f"(?:{first}|{run}){more}")

    def find_all(self, text: str) -> Iterator[_Mention]:
        """Yield the mentions in order; if there are too many, the last ones."""
        matches = deque(self._pattern.finditer(text), maxlen=_MOST_MENTIONS)
        return map(self._make_mention, matches)

    def match(self, text: str, position: int) -> _Mention | None:
        """Return the mention that begins at this position; None if there is none."""
        match = self._pattern.match(text, position)
        return None if match is None else self._make_mention(match)

    def _make_mention(self, match: re.Match[str]) -> _Mention:
        group = "run" if match["run"] else "first"
        written = match[group]
        if group == "first":
            written += _WORDS_IN_MENTION.sub(" ", match["more"] or "")
        letters = {char for char in written.upper() if char in self.options}
        return _Mention(
            letters="".join(sorted(letters)),
            first=match["first"] or "",
            start=match.start(group),
            end=match.end("more") if match["more"] else match.end(group),
            after_first=match.end(group),
            in_brackets="(" in match[0],
        )


_get_finder = lru_cache(maxsize=64)(_MentionFinder)  # compiling the pattern takes time


def find_choice(
    text: str, options: str = "ABCDEFGHIJ", extractors: Sequence[Extractor] = DEFAULT
) -> Choice:
    """Return the options that the answer chooses, and where they were found; no letters if it chooses none.

    `extractors` says where to look: "stated" stands for steps 2 and 3 of the module docstring, "last" for 4 to 6, the
    others for marks of step 1.
    """
    finder = _get_finder(options)
    text = replace_surrogates(text[-TAIL:])
    if options.isascii():
        text = _LOOKALIKE.sub(
            lambda match: _LOOKALIKES.get(match[0]) or unicodedata.normalize("NFKC", match[0]), text
        )
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
        if letters:
            return Choice(letters, reading.how)
        if not any(map(str.isalnum, inside)):  # an empty mark, such as \\boxed{}: nothing is chosen
            return Choice("", reading.how)
        # A marked value such as \\boxed{33.4} is no letter; "the correct option is B" beside it names one.
        extractors = [name for name in extractors if name == "stated"]
    steps: list[tuple[Extractor, Callable[[str, _MentionFinder], str], str]] = [
        ("stated", _find_stated, "the last statement"),
        ("stated", _find_called_right, "what is called right"),
        ("last", _find_on_a_line, "a line of its own"),
        ("last", _find_in_brackets, "the options in brackets"),
        ("last", _find_last_capital, "the last letter"),
    ]
    for extractor, find, how in steps:
        letters = find(text, finder) if extractor in extractors else ""
        if letters:
            return Choice(letters, how)
    return Choice("", f"none of {', '.join(extractors)}")


def _find_stated(text: str, finder: _MentionFinder) -> str:
    """Return the letters after the last "answer is", "I choose" or 故选 that are not denied."""
    statements = find_statements(text)
    letters = ""
    for mention in finder.find_all(text):
        before = text[max(0, mention.start - _BEFORE_CHOICE) : mention.start].rstrip(
            _OPENING_CHARACTERS
        )
        is_stated = bool(_CHOOSE.search(before) or _CORRECTED.search(before))
        statements_before = bisect_right(statements, mention.start)
        if statements_before:
            between = text[statements[statements_before - 1] : mention.start].strip(
                _OPENING_CHARACTERS
            )
            is_stated = is_stated or between.casefold() in _WORDS_BETWEEN
        if not is_stated or _is_word(text, mention) or _is_unit(text, mention):
            continue
        if _find_next_option(text, mention, finder):
            continue
        if not is_denied(text, mention.start, mention.end):
            letters = mention.letters
        elif _ANOTHER_DENIED.match(text, mention.after_first):
            # "The answer is B, A is wrong": the mention is "B, A", but only A is denied.
            letters = mention.first.upper()
    return letters


def _is_word(text: str, mention: _Mention) -> bool:
    """Is the letter a word: "a dog", "I think", Spanish "o", Italian "e"?"""
    if mention.first not in tuple("AIaieoyuàé"):  # a tuple, because "" is in every string
        return False
    sign = text[mention.after_first : mention.after_first + 1]
    if sign in (")", "）", "]", "】", ".", ":", "："):
        return False
    return _NEXT_WORD.match(text, mention.after_first) is not None


def _is_unit(text: str, mention: _Mention) -> bool:
    """Is the letter a unit (3 C, 40 °F, Btu/lb-F) or part of a name (vitamin C)?"""
    if mention.in_brackets:
        return False
    before = text[max(0, mention.start - _BEFORE_UNIT) : mention.start]
    return _NUMBER_BEFORE.search(before) is not None or _NAME_BEFORE.search(before) is not None


def _find_next_option(text: str, mention: _Mention, finder: _MentionFinder) -> str:
    """Return the next option if a list of them begins or goes on here ("A. ①② B. ①③ …"); else ""."""
    sign = text[mention.end : mention.end + 1]
    if len(mention.letters) != 1 or sign not in _LIST_SIGNS:
        return ""
    place = finder.options.find(mention.letters)
    next_option = finder.options[place + 1 : place + 2]
    if not next_option:  # it is the last one
        return ""
    entry = rf"\s[(（]?{next_option}{re.escape(sign)}\s?\S"
    return next_option if re.search(entry, text[mention.end : mention.end + _AFTER_OPTION]) else ""


def _find_called_right(text: str, finder: _MentionFinder) -> str:
    """Return all letters that are called right and not denied, after the last retraction ("wait", "actually")."""
    text = cut_retracted(text)
    letters: set[str] = set()
    for mention in finder.find_all(text):
        if is_denied(text, mention.start, mention.end):
            continue
        # Of the small letters, "a", "i" and "o" are more likely words than options.
        if mention.first.islower() and mention.first not in "bcdefgh":
            continue
        if _CALLED_RIGHT.match(text, mention.end):
            letters.update(mention.letters)
    return "".join(sorted(letters))


def _find_on_a_line(text: str, finder: _MentionFinder) -> str:
    """Return the letters that the last line (or else the first) is or begins with: "B", "(b)", "B. Paris"."""
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
    """Return the letters that a line begins with, if an option's text or nothing follows them; else ""."""
    line = line.lstrip("#>*-_ \t")
    label = _LINE_LABEL.match(line)
    after_label = label.end() if label else 0
    mention = finder.match(line, after_label)
    if mention is None or after_label > _LONGEST_LABEL or _is_word(line, mention):
        return ""
    if _find_next_option(line, mention, finder):
        return ""
    rest = line[mention.end :].lstrip()
    if not rest.strip(")）]】」>}$*_\"”'’`.。!！ "):
        return mention.letters
    sign = line[mention.end : mention.end + 1]
    if sign in ").:：、）．】]," and not is_denied(line, 0, mention.end):
        return mention.letters
    return ""


def _find_in_brackets(text: str, finder: _MentionFinder) -> str:
    """Return the options in brackets that nothing denies."""
    letters = set()
    for match in _IN_BRACKETS.finditer(text):
        if match[1].upper() in finder.options and not is_denied(text, match.start(), match.end()):
            letters.add(match[1].upper())
    return "".join(sorted(letters))


def _find_last_capital(text: str, finder: _MentionFinder) -> str:
    """Return the last capital letter that names an option and stands alone; not "A" and "I" as words."""
    letters = ""
    listed_next = ""  # the option that follows in a list of all options
    for mention in finder.find_all(text):
        if not mention.first.isupper() or _is_word(text, mention):
            continue
        # "I think"; not "I. Paris"
        is_pronoun = re.match(r"I(?![.):]\s)", text[mention.start : mention.start + 3])
        if is_pronoun and not mention.in_brackets:
            continue
        is_listed = mention.letters == listed_next
        listed_next = _find_next_option(text, mention, finder)
        if is_listed or listed_next or _is_unit(text, mention):
            continue
        if _SYMBOL_AFTER.match(text, mention.end):
            continue
        if not is_denied(text, mention.start, mention.end):
            letters = mention.letters
    return letters


def find_option_texts(question: str, options: str = "ABCDEFGHIJ") -> dict[str, str]:
    """Return the texts of the options that a question lists: {"A": "Paris", …}."""
    texts = {}
    for match in _OPTION_LINE.finditer(question[-TAIL:]):
        if match[1] in options.upper():
            texts[match[1]] = match[2].strip()
    return texts
