"""Which option an answer chooses: "A is correct.", "the answer is b", D项正确, （A）错误；（B）正确, "I'd go with C".

>>> find_choice("所以答案是B。"), find_choice("(A) is wrong; (B) is right.")
(Choice(letters='B', how='the last statement'), Choice(letters='B', how='what is called right'))

Tried in this order: a marked result (tags, \\\\boxed, ####, JSON); a statement ("answer is", "I choose", 故选); what is
called right ("B is correct"); a letter alone on the last or the first line; the only option in brackets; the last
capital. What is denied ("not A", "A is wrong", 排除A) is never chosen. Several letters mean that several were named.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rubrank._plain import clean
from rubrank.verifiers.shared.answers import DEFAULT, TAIL, Extractor, read_answer
from rubrank.verifiers.shared.statements import STATED, after_retraction, find_statements, is_denied

_LATIN = "A-Za-zÀ-ɏ0-9"
_OPEN, _SHUT = r"[(（\[【「<{\\$*_\"“'‘`\s]", r"[)）\]】」>}$*_\"”'’`\s]"
_JOINT = (
    r"(?:\s*(?:,|，|、|/|&|\+|;|和|与|與|及|或者?|と|または|、と|와|과|또는"
    r"|(?<=[\s*)）])(?:and|or|y|o|et|ou|und|oder|e|и|или)(?=[\s*(（]))\s*){1,2}"
)
_WORD = (
    r"(?:(?:the\s+)?(?:option|choice|letter|answer|opción|letra|alternativa|lettre|opzione|lettera|buchstabe"
    r"|вариант|seçenek|şık|phương án|câu|pilihan|opsi|ข้อ|선택지|보기)\s+|选项\s*|选择\s*|第?)"
)


@dataclass(frozen=True, slots=True)
class Choice:
    """The letters chosen, sorted ("" if none), and where they were found."""

    letters: str
    how: str


_LOOKALIKES = dict(zip("АВСЕНКМОРТХавсеорхΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ABCEHKMOPTXabceopxABEZHIKMNOPTYX", strict=True))
_LOOKALIKE = re.compile(rf"(?<!\w)[{''.join(_LOOKALIKES)}](?!\w)")


def _plain_letters(text: str, options: str) -> str:
    """Cyrillic and Greek letters that stand alone and look like an option, and full-width ones, as that option."""
    text = text.translate(_WIDE)
    if text.isascii():
        return text
    return _LOOKALIKE.sub(lambda m: m[0] if m[0].upper() in options else _LOOKALIKES[m[0]], text)


def _wide() -> dict[int, str]:
    wide = {ord("Ａ") + i: chr(ord("A") + i) for i in range(26)} | {ord("ａ") + i: chr(ord("a") + i) for i in range(26)}
    circled = {ord("Ⓐ") + i: chr(ord("A") + i) for i in range(26)} | {0x1F170: "A", 0x1F171: "B"}
    return wide | circled


_WIDE = _wide()


class _ChoiceFinder:
    """The mentions of options in a text; patterns are made once for each set of options."""

    def __init__(self, options: str) -> None:
        self.options = options.upper()
        either = re.escape(self.options + self.options.lower())
        end = rf"(?![{_LATIN}]|['’][a-z]|\.[a-z])"
        first = rf"(?<![{_LATIN}'’.]){_OPEN}{{0,6}}(?P<first>(?<![{_LATIN}])[{either}]){end}"
        later = rf"{_WORD}?{_OPEN}{{0,4}}[{either}]{end}"
        self.group = re.compile(
            rf"(?:{first}|(?<![{_LATIN}])(?P<run>[{re.escape(self.options)}]{{2,6}})(?![{_LATIN}]))"
            rf"(?P<more>(?:{_SHUT}{{0,3}}{_JOINT}{later}){{0,9}})"
        )

    def letters(self, match: re.Match[str]) -> str:
        """The options of a group, upper case and sorted."""
        if match["run"]:
            found = match["run"]
        else:
            more = re.sub(
                rf"(?<![{_LATIN}])(?:and|or|et|ou|und|oder|option|choice|the|letter|answer)(?![{_LATIN}])",
                " ",
                match["more"] or "",
            )
            found = match["first"] + more
        return "".join(sorted({c for c in found.upper() if c in self.options}))


_FINDERS: dict[str, _ChoiceFinder] = {}


def _finder(options: str) -> _ChoiceFinder:
    if options not in _FINDERS:
        _FINDERS[options] = _ChoiceFinder(options)
    return _FINDERS[options]


_CHOOSE = re.compile(
    r"(?:\b(?:choose|chose|pick|picked|select|selected|go(?:ing)? (?:with|for)|opt(?:ing)? for|choice is|option "
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
_RIGHT = re.compile(
    r"[*_)）\]】」』\"'”’`$.、,，:：]*\s*(?:选项|選項|項|项|肢|番|번|option)?\s*"
    r"(?:(?:is|are|was|must be|would be|should be|has to be|seems|looks|est|es|é|è|ist|är|er|to|jest|je|là|adalah)\b)?"
    r"\s*(?:是|为|為|才|才是|が|は|이|가|은|는)?\s*"
    r"(?:clearly|definitely|thus|therefore|indeed|the|my|la|le|el|die|das|a|o|il|最|all|both|都|均|also)*\s*"
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


def find_choice(text: str, options: str = "ABCDEFGHIJ", extractors: Sequence[Extractor] = DEFAULT) -> Choice:
    """The options that the answer chooses."""
    finder = _finder(options)
    text = _plain_letters(clean(text[-TAIL:]), finder.options)
    marked = [name for name in extractors if name not in ("stated", "last", "whole")]
    reading = read_answer(text, marked)
    if reading.explicit:
        return Choice(_marked(reading.text, finder), reading.how)
    steps = [("stated", _stated, "the last statement"), ("stated", _called_right, "what is called right")]
    steps += [("last", _on_a_line, "a line of its own"), ("last", _bracketed, "the only option in brackets")]
    steps += [("last", _last_capital, "the last letter")]
    for extractor, step, how in steps:
        if extractor in extractors and (letters := step(text, finder)):
            return Choice(letters, how)
    return Choice("", f"none of {', '.join(extractors)}")


def _marked(inside: str, finder: _ChoiceFinder) -> str:
    """The letters of a marked result: it is one, begins with one, or states one."""
    return _on_a_line(inside, finder) or _stated(inside, finder) or _called_right(inside, finder)


def _stated(text: str, finder: _ChoiceFinder) -> str:
    """The letters behind the last "answer is", "I choose", 故选 that denies nothing."""
    ends = set(find_statements(text))
    found = ""
    for group in finder.group.finditer(text):
        start = group.start("first") if group["first"] else group.start("run")
        before = text[max(0, start - 80) : start].rstrip("(（[【「<{\\$*_\"“'‘` \n")
        at = max(0, start - 80) + len(before)
        stated = any(at <= end <= start for end in ends) or _CHOOSE.search(before) is not None
        stated = stated or _behind_statement(text, at)
        if not stated or _is_article(text, group) or is_denied(text, start, _end(group)):
            continue
        found = finder.letters(group)
    return found


_BETWEEN = frozenset(
    """|option|choice|letter|la|opción|letra|lettre|selection|选项|the option|la letra|la lettre|a letra|a alternativa
    |l'option|la opción|option letter|number|will be|still|indeed|opzione|la lettera|вариант""".replace(
        "\n    ", ""
    ).split("|")
)


def _behind_statement(text: str, at: int) -> bool:
    """Does a statement such as "the correct answer, then, is option" end here? A few words may stand between."""
    statements = list(STATED.finditer(text, max(0, at - 60), at))
    if not statements:
        return False
    between = text[statements[-1].end() : at].strip().casefold()
    return between in _BETWEEN


def _end(group: re.Match[str]) -> int:
    return group.end("more") if group["more"] else group.end("first") if group["first"] else group.end("run")


def _is_article(text: str, group: re.Match[str]) -> bool:
    """Is the letter a word: "a dog", "I think", Spanish "o", Italian "e"?"""
    letter = group["first"] or ""
    dressed = (
        text[group.end("first") : group.end("first") + 1] in (")", "）", "]", "】", ".", ":", "：") if letter else True
    )
    return letter in tuple("AIaieoyuàé") and not dressed and _ARTICLE.match(text, group.end("first")) is not None


def _called_right(text: str, finder: _ChoiceFinder) -> str:
    """All letters that are called right, and not wrong; what was taken back does not count."""
    text = after_retraction(text)
    found: set[str] = set()
    for group in finder.group.finditer(text):
        start = group.start("first") if group["first"] else group.start("run")
        if is_denied(text, start, _end(group)) or (
            (group["first"] or "A").islower() and group["first"] not in "bcdefgh"
        ):
            continue
        if _RIGHT.match(text, _end(group)):
            found |= set(finder.letters(group))
    return "".join(sorted(found))


def _on_a_line(text: str, finder: _ChoiceFinder) -> str:
    """The letters on the last line, or the first, if it holds or begins with nothing else: "B", "(b)", "B. Paris"."""
    lines = [line.strip() for line in text.splitlines() if any(map(str.isalnum, line))]
    if not lines:
        return ""
    starts = [_alone(line, finder) for line in (lines[-1], lines[0])]
    if starts[0] and (len(lines) == 1 or not _alone(lines[-2], finder)):
        return starts[0]
    several = len(lines) > 1 and bool(_alone(lines[1], finder))
    return starts[1] if starts[1] and not several else ""


def _alone(line: str, finder: _ChoiceFinder) -> str:
    line = line.strip().lstrip("#>*-_ \t")
    group = finder.group.match(line, _ALONE.match(line).end())  # type: ignore[union-attr]
    if group is None or group.start() > 8 or _is_article(line, group):
        return ""
    end = _end(group)
    rest = line[end:].lstrip()
    single = line[end : end + 1]
    ends = not rest.strip(")）]】」>}$*_\"”'’`.。!！ ") or (
        single in ").:：、）．.】]," and not is_denied(line, 0, end)
    )
    return finder.letters(group) if ends else ""


def _bracketed(text: str, finder: _ChoiceFinder) -> str:
    """The option in brackets that is the only one that nothing denies."""
    found = {
        m[1].upper()
        for m in re.finditer(r"[(（【\[]\s*([A-Za-z])\s*[)）】\]]", text)
        if m[1].upper() in finder.options and not is_denied(text, m.start(), m.end())
    }
    return "".join(sorted(found))


def _last_capital(text: str, finder: _ChoiceFinder) -> str:
    """The last option in capitals, alone among words; "A" and "I" before words are no options."""
    found = ""
    for group in finder.group.finditer(text):
        start = group.start("first") if group["first"] else group.start("run")
        first, end = group["first"] or "", _end(group)
        pronoun = first == "I" and "(" not in group[0] and re.match(r"[.):]\s", text[end : end + 2]) is None
        if first.isupper() and not pronoun and not _is_article(text, group) and not is_denied(text, start, end):
            found = finder.letters(group)
    return found


_OPTION_LINE = re.compile(
    r"(?:^|\n|(?<=\s))[(（\[]?([A-Z])[)）\].:：、．]\s*([^\n]{1,300}?)(?=\s*(?:\n|$|[(（\[]?[A-Z][)）\].:：、．]\s))"
)


def find_option_texts(question: str, options: str = "ABCDEFGHIJ") -> dict[str, str]:
    """The texts of the options that a question lists: {"A": "Paris", …}."""
    return {m[1]: m[2].strip() for m in _OPTION_LINE.finditer(question[-TAIL:]) if m[1] in options.upper()}
