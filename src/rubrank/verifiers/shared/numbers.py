"""Reads numbers as people write them: 1,234.5 · 1.234,5 · 3/4 · 2^10 · 1.2 × 10^5 · 45% · 五百二十 · forty-two · 5 km.

>>> read_numbers("about 1,200 m, or 1.2 km")
[Number(value=1200.0, unit='m', percent=False), Number(value=1200.0, unit='km', percent=False)]
>>> read_han("壹佰贰拾"), read_han("三万五"), read_number_words("quatre-vingt-dix-sept")
(120.0, 35000.0, 97.0)

Digits of all scripts count. A comma before exactly three digits groups (1,234 is a thousand), any other single one
divides the decimals (3,14); with both signs the last one divides. Not covered: 1.234 as a thousand, when nothing else
shows it; Roman numerals.

The first half reads numbers in words; the words of languages with letters are in data/numerals.tsv. In the second half,
`read_numbers` reads a text in three steps. For "-1.2 × 10^5 km/h":

    _compile_number_pattern   finds it and names its parts: sign "-", digits "1.2", exponent "5"
    _read_value               computes the value of these parts: -120,000
    _add_unit                 reads the unit or percent sign behind it, "km/h", and converts: -33,333.3 m/s

Slices such as `digits[:400]` bound the time for hostile texts; no number in prose is nearly as long.
"""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import dataclass, field
from functools import cache

from rubrank._plain import word_list
from rubrank.verifiers.shared.arithmetic import spell_powers
from rubrank.verifiers.shared.word_tables import read_table, read_words

# ---- Chinese, Japanese, Korean ------------------------------------------------------------------------------------

_PLAIN_HAN_DIGITS = "零一二三四五六七八九"
_SCALES = {"十": 10, "百": 100, "千": 1000, "万": 10**4, "亿": 10**8, "兆": 10**12}
# Formal, traditional and Japanese forms → the plain ones
_FORMS = "〇○壹壱弌幺贰貳弐兩两叁參参肆伍陆陸柒漆捌玖"
_PLAIN_FORMS = "零零一一一一二二二二二三三三四五六六七七八九"
_SCALE_FORMS = "拾佰陌仟萬億"
_PLAIN: dict[int, int | str] = {
    **str.maketrans(f"{_FORMS}{_SCALE_FORMS}點", f"{_PLAIN_FORMS}十百百千万亿点"),
    ord("廿"): "二十",
    ord("卅"): "三十",
    ord("卌"): "四十",
}
HAN_DIGITS = _PLAIN_HAN_DIGITS + _FORMS
# A pattern of one character of a numeral
HAN = f"[{HAN_DIGITS}{''.join(_SCALES)}{_SCALE_FORMS}廿卅卌]"
# Sino-Korean numerals are the Chinese ones in Korean letters.
_KOREAN_CHARACTERS = "영일이삼사오육칠팔구공륙십백천만억"
_CHINESE_OF_KOREAN = str.maketrans(_KOREAN_CHARACTERS, "零一二三四五六七八九零六十百千万亿")
SINO_KOREAN = f"[{_KOREAN_CHARACTERS}]"


def read_han(numeral: str) -> float:
    """Return the value of a numeral of Chinese characters, formal or not; 点 divides the decimals."""
    whole, _, decimals = numeral[:60].translate(_PLAIN).partition("点")
    digits = "".join(
        str(_PLAIN_HAN_DIGITS.index(char)) for char in decimals if char in _PLAIN_HAN_DIGITS
    )
    fraction = float(f"0.{digits or 0}")
    if not any(char in _SCALES for char in whole):  # 二〇二四: digit by digit
        return fraction + float("".join(str(_PLAIN_HAN_DIGITS.index(char)) for char in whole) or 0)

    # 三千五百万: digits, each before the scale that multiplies it
    total = 0  # the value up to the last 万, 亿 or 兆
    section = 0  # the value since then, up to the last 十, 百 or 千
    digit = 0
    scale = 0  # the last 十, 百, 千, 万 …
    for char in whole:
        if char in _PLAIN_HAN_DIGITS:
            digit = _PLAIN_HAN_DIGITS.index(char)
            continue
        scale = _SCALES[char]
        if scale < 10**4:
            section += (digit or 1) * scale
        else:
            part = (section + digit) or 1
            # 亿 multiplies all before it: 一万亿 is 10^12
            total = (total + part) * scale if scale > 10**4 else total + part * scale
            section = 0
        digit = 0
    # A last digit right after a scale counts for the next smaller scale: 一百二 is 120 and 三万五 is 35,000.
    # With a zero between them it does not: 一百零二 is 102.
    if digit and scale > 10 and whole[-2:-1] in _SCALES:
        digit = digit * scale // 10
    return float(total + section + digit) + fraction


def read_korean(numeral: str) -> float | None:
    """Return the value of a Sino-Korean or native Korean numeral; None if the text is something else."""
    numeral = numeral.replace(" ", "")[:40]
    if re.fullmatch(f"{SINO_KOREAN}+", numeral) is None:
        return _add_words(numeral, "ko") if numeral else None
    # Korean has no short form: 백이 is 102.
    chinese = numeral.translate(_CHINESE_OF_KOREAN)
    return read_han(re.sub("(?<=[百千万亿])(?=[一二三四五六七八九]$)", "零", chinese))


# ---- words, alone or glued together ---------------------------------------------------------------------------------


@cache
def read_numerals(language: str) -> dict[str, str]:
    """Return the number words of a language with their values: "40"; "x100" multiplies, "+" joins."""
    words: dict[str, str] = {}
    for code, value, row in read_table("numerals"):
        if code == language:
            words |= dict.fromkeys(row.split(), value)
    return words


@cache
def _compile_words(language: str) -> re.Pattern[str]:
    """Compile a pattern of one number word, the longest first: "sechzehn" before "sech"."""
    return re.compile("|".join(sorted(read_numerals(language), key=len, reverse=True)))


def read_number_words(words: str) -> float | None:
    """Read a number in words of one of the languages in data/numerals.tsv; None for anything else."""
    # German writes zweiundvierzig as one word and French puts hyphens, so spaces and hyphens (also soft ones) go.
    letters = re.sub("[\\s\\-\u2010\u00ad]+", "", words.casefold())[:200].replace("ß", "ss")
    if not letters or not letters.isalpha():
        return None
    # French 80 is "four twenties", which would be read as 4 + 20. The Swiss word "octante" means the same.
    letters = letters.replace("quatrevingts", "octante").replace("quatrevingt", "octante")
    for language in dict.fromkeys(row[0] for row in read_table("numerals")):
        value = _add_words(letters, language)
        if value is not None:
            return value
    return None


def _add_words(letters: str, language: str) -> float | None:
    """Return the value of number words without spaces between them; None if something else stands there."""
    total = 0  # up to the last word for a thousand, a million …
    current = 0  # since then
    position = 0
    while position < len(letters):
        word = _compile_words(language).match(letters, position)
        if word is None:
            return None
        position = word.end()
        value = read_numerals(language)[word[0]]
        if value == "+":
            continue
        if not value.startswith("x"):
            current += int(value)
            continue
        factor = int(value[1:])
        if factor < 1000:
            current = (current or 1) * factor
        else:
            total += (current or 1) * factor
            current = 0
    return float(total + current)


# ---- English inside a sentence --------------------------------------------------------------------------------------

_PARTS = word_list("half third quarter fifth sixth seventh eighth ninth tenth")
_WORD = _compile_words("en").pattern
# "forty-two", "a hundred", "three hundred and five"
ENGLISH = rf"\b(?:a\s+(?:hundred|thousand|million|billion|dozen)|{_WORD})(?:(?:\s+and)?[\s-]+(?:{_WORD}))*+\b"
# "three quarters", "a third", "half"; not "third of the list" or "third grade", which are ranks
ENGLISH_FRACTION = (
    rf"\b(?:(?:{_WORD}|an?)[\s-]+)?(?:{'|'.join(_PARTS)}|halve)s?\b"
    r"(?!\s+(?:of\s+the\s+(?:list|test)|grade|place))"
)


def read_english(words: str) -> float:
    """Return the value of words such as "three hundred and five"."""
    return _add_words(re.sub(r"\b(?:a|and)\b|[\s-]", "", words.lower()), "en") or 0.0


def read_english_fraction(words: str) -> float:
    """Return the value of words such as "three quarters", "half", "a third"."""
    *count, part = re.split(r"[\s-]+", words.lower())
    singular = part.removesuffix("s").replace("halve", "half")
    # "a third" and "third": one of them
    numerator = int(read_numerals("en").get("".join(count), "1"))
    return numerator / (_PARTS.index(singular) + 2)


# ---- numbers in a text -----------------------------------------------------------------------------------------------

_MONEY = frozenset(("yuan", "yen", "won", "dollar", "euro", "pound", "rupee"))
_DIGITS = (
    r"0[xX][0-9a-fA-F]{1,16}\b|0b[01]{1,60}\b"  # 0xff, 0b101
    r"|\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,}(?![\d.])"  # 1.234.567,89
    r"|\d{1,3}(?:[ '’_]\d{3})+(?!\d)(?:[.,]\d+)?"  # 1 234 567,89 and 1'234'567.89
    r"|\d{1,2}(?:,\d{2})+,\d{3}(?!\d)(?:\.\d+)?"  # 12,34,567
    r"|\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?"  # 1,234,567.89
    r"|\d+(?:[.,]\d+)?|\.\d+"  # 12, 3,14 and .5
)
_HAN_DIGIT = f"[{HAN_DIGITS}]"
_PERCENT = (
    r"\\?%|٪|percent(?:age points?)?|per cent|pct\b|por\s?ciento|por cento|pour cent|prozent|procent|per cento"
    r"|процент\w*|パーセント|퍼센트|프로(?!\w)|phần trăm|persen|yüzde|เปอร์เซ็นต์"
)
# What follows a number: a sign of percent, or a unit, perhaps in LaTeX
_AFTER = re.compile(
    rf"[\s~]*(?:(?P<percent>{_PERCENT})|(?P<mille>‰|permille)|(?P<tenths>成(?!\w)|割))"
    r"|[\s~]*\\?(?:text|mathrm|operatorname)?\{?\s*"  # "\text{ ", "\mathrm{"
    r"(?P<unit>\^?\\circ\s?C?"  # "^\circ C"
    r"|[^\s\d.,;:!?。，；：！？、)）}$=<>|][^\s.,;:!?。，；：！？、)）}$=<>|]{0,13}"  # "km/h"
    r"(?:\^?\{?[23]\}?(?=\W|$))?)",  # "^2" of "cm^2"
    re.IGNORECASE,
)
# What stands before a number that is part of a name: x^2, x_1, H2O, B12. Currencies are no names: USD5, Rs500.
_PART_OF_NAME = re.compile(
    r"(?:[A-Za-zÀ-ɏ)}][\^_]\{?|(?<![A-Za-z])(?!(?:usd|eur|gbp|cny|rmb|inr|rs|us|nt|hk)\Z)[A-Za-z]{1,11})\Z",
    re.I,
)
_UNIT_WITH_POWER = re.compile(r"(.+?)(?:\^(\d))?")  # "s^2"
_COMPOUND_UNIT = re.compile(r"[^\W\d_]+(?:\^\d)?[/每][^\W\d_]+(?:\^\d)?")  # "m/s^2", 米每秒
_PER = re.compile(r"\s*(?:per|pro|par|por|на)\s+([^\W\d_]+)")  # 72 kilometres per hour
# The place between 2 and ½ in "2½": NFKC would make "21/2" of it
_BEFORE_FRACTION_SIGN = re.compile(r"(?<=\d)(?=[¼-¾⅐-⅞])")


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a text."""

    value: float
    """In base units, whatever the unit: 1000 for "1 km" and 0.45 for "45%"."""
    unit: str = ""
    """As written ("km"); the currency for money ("dollar"); "" without one or if it is unknown."""
    percent: bool = False
    """Was it written as a share: 45%, 3‰, 三成?"""
    written: str = field(default="", compare=False, repr=False)
    """As it stands in the text, with its unit."""
    start: int = field(default=0, compare=False, repr=False)
    end: int = field(default=0, compare=False, repr=False)
    """Its place in `normalise_numbers(text)`, without the unit."""
    in_words: bool = field(default=False, compare=False, repr=False)
    """Is it written in English words?"""


@cache
def read_units() -> dict[str, tuple[float, str]]:
    """Return the size of every unit in base units, and what it measures: {"km": (1000.0, "length"), …}."""
    table: dict[str, tuple[float, str]] = {}
    for dimension, factor, names in read_table("units"):
        table |= dict.fromkeys(names.split(), (float(factor), dimension))
    return table


@cache
def measure_unit(unit: str) -> tuple[float, str] | None:
    """Return the size and dimension of a unit, also of a compound one: "km/h" → (0.2778, "length/time"); else None."""
    if unit in read_units():
        return read_units()[unit]
    parts = [_UNIT_WITH_POWER.fullmatch(part) for part in re.split("[/每]", unit)]
    if len(parts) != 2 or any(part is None or part[1] not in read_units() for part in parts):
        return None
    sizes: list[tuple[float, str]] = []
    for part in filter(None, parts):
        factor, dimension = read_units()[part[1]]
        power = int(part[2] or 1)
        sizes.append((factor**power, dimension if power == 1 else f"{dimension}^{power}"))
    (above, dimension_above), (below, dimension_below) = sizes  # "km" and "h" of "km/h"
    return above / below, f"{dimension_above}/{dimension_below}"


def find_dimension(unit: str) -> str:
    """Return what the unit measures ("length"); an unknown unit measures itself."""
    measure = measure_unit(unit)
    return measure[1] if measure else unit


def is_close(number: Number, true: Number, tolerance: float) -> bool:
    """Are they the same quantity? Units convert; one that has no unit or percent sign may mean the other's."""
    if number.unit and true.unit and find_dimension(number.unit) != find_dimension(true.unit):
        return False
    if math.isnan(number.value) or math.isnan(true.value):
        return False
    readings = [number.value]
    if true.percent and not number.percent:
        readings.append(number.value / 100)
    # "What percentage …?": a truth of 50 means 50%.
    if number.percent and not true.percent and abs(true.value) >= 1:
        readings.append(100 * number.value)
    # If only one of them has a unit, the other is read in that unit, too.
    if bool(number.unit) != bool(true.unit):
        factor, _ = measure_unit(number.unit or true.unit) or (1.0, "")
        readings.append(number.value / factor if number.unit else number.value * factor)
    return any(
        math.isclose(reading, true.value, rel_tol=tolerance, abs_tol=1e-12) for reading in readings
    )


@cache
def _read_scale_words() -> dict[str, float]:
    """Return the words that multiply a number: {"million": 1e6, …}."""
    scales: dict[str, float] = {}
    for factor, words in read_words("large_numbers").items():
        scales |= dict.fromkeys(words, float(factor))
    return scales


@cache
def _compile_number_pattern() -> re.Pattern[str]:
    """Compile the pattern of a number: sign, currency, one of six notations, power of ten, scale."""
    sign = r"(?P<sign>(?<![\w)])[-–+±]\s?|\b(?:minus|negative|moins|menos|meno|минус)\s|[负負]|マイナス)?"
    money = r"(?P<money>[$€£¥₹]\s?)?(?P<sign2>(?<=[$€£¥₹])-)?"
    # \frac{3}{4}, \frac34
    latex_fraction = (
        r"\\[dtc]?frac\s?\{?(?P<frac_above>-?\d+(?:\.\d+)?)\}?"
        r"\s?\{?(?P<frac_below>(?<=[{}])\d+(?:\.\d+)?|\d)\}?"
    )
    # 三分之二, 100分之3
    han_fraction = (
        rf"(?P<han_below>{HAN}+|\d+)分之(?P<han_above>{HAN}+(?:[点點]{_HAN_DIGIT}+)?|\d+(?:\.\d+)?)"
    )
    digits = (
        rf"(?P<digits>{_DIGITS})(?:"
        r"(?P<dots>\.\.\.|…)"  # 0.333…
        r"|(?:\^|\*\*)\s?\{?(?P<power>-?\d{1,4})\}?(?![\d.])"  # 2^{10}
        r"|\s?/\s?(?P<below>\d+(?:\.\d+)?)(?![\d/])"  # 3/4
        r"|\s+(?:and\s+)?(?P<mixed_above>\d+)\s?/\s?(?P<mixed_below>\d+)(?![\d/])"  # 2 1/2
        r"|\s?\\[dtc]?frac\s?\{(?P<latex_above>\d+)\}\s?\{(?P<latex_below>\d+)\}"  # 2\frac{1}{2}
        r"|(?P<half>\s+and\s+a\s+half\b)"  # 2 and a half
        r")?"
    )
    # 五百二十, 三个半, 삼백
    han = rf"(?P<han>(?<!\d)(?<!\d\s){HAN}+(?:[点點]{_HAN_DIGIT}+)?(?P<han_half>个半|個半|半)?)"
    korean = rf"(?P<korean>{SINO_KOREAN}{{2,}})"
    # three quarters, forty-two and a half
    english = rf"(?P<fraction>{ENGLISH_FRACTION})|(?P<english>{ENGLISH})(?P<english_half>\s+and\s+a\s+half\b)?"
    # × 10^5, e5
    power_of_ten = (
        r"(?:\s?(?:[x×*·⋅]|\\times|\\cdot)\s?10\s?(?:\^|\*\*)\s?\{?\s?(?P<exponent>[-+]?\d{1,4})\}?"
        r"|[eE](?P<e>[-+]?\d{1,3})(?!\w))?"
    )
    # 千 before the name of a unit belongs to it: 千米, 千克. Single Korean characters are listed apart from the words.
    words = [word for word in _read_scale_words() if word not in "만억천"]
    spelled = "|".join(sorted(words, key=len, reverse=True))
    scale = rf"(?:千(?![米克瓦帕焦伏赫卡])|[万萬亿億百兆])+|[만억천]+(?=\D)|(?:{spelled})\b"
    notations = "|".join([latex_fraction, han_fraction, digits, han, korean, english])
    return re.compile(
        rf"{sign}{money}(?:{notations}){power_of_ten}\s?(?P<scale>{scale})?", re.IGNORECASE
    )


def normalise_numbers(text: str) -> str:
    """Return the text with numbers in one form: one width, ASCII digits, powers as ^{…}, no thin spaces of LaTeX."""
    text = spell_powers(_BEFORE_FRACTION_SIGN.sub(" ", text))
    text = unicodedata.normalize("NFKC", text)
    text = text.replace("−", "-").replace("⁄", "/").replace("\u00ad", "")
    text = re.sub(r"\\[,!;: ]|\{,\}|\\(?:left|right)\b", "", text)
    text = text.replace("٫", ".").replace("٬", ",")
    if text.isascii():
        return text
    return "".join(
        str(unicodedata.decimal(char)) if char > "\x7f" and char.isdecimal() else char
        for char in text
    )


def read_numbers(text: str) -> list[Number]:
    """Return all numbers of the text, in order."""
    text = normalise_numbers(text)
    numbers: list[Number] = []
    for match in _compile_number_pattern().finditer(text):
        if _PART_OF_NAME.search(text, max(0, match.start() - 12), match.start()):
            continue
        value = _read_value(match)
        if value is None:
            continue
        number = _add_unit(value, match, text)
        previous = numbers[-1] if numbers else None
        # 2亿3000万 and 1万5千 are one number each: the second part follows a large unit at once.
        is_continued = (
            previous is not None
            and previous.end == number.start
            and previous.written[-1:] in "万萬亿億만억"
            and not previous.unit
        )
        if previous and is_continued:
            numbers[-1] = Number(
                previous.value + number.value,
                number.unit,
                written=previous.written + number.written,
                start=previous.start,
                end=number.end,
            )
        else:
            numbers.append(number)
    return numbers


def _read_value(match: re.Match[str]) -> float | None:
    """Return the value of a match with its sign, power of ten and scale; None if the words are no number."""
    groups = match.groupdict()
    value = _read_base(groups)
    if value is None:
        return None
    exponent = int(groups["exponent"] or groups["e"] or "0")
    value *= 10.0 ** max(-300, min(300, exponent))  # beyond that, Python raises OverflowError
    scale = groups["scale"]
    if scale:  # "million" or 百万
        value *= _read_scale_words().get(scale.lower()) or read_korean(scale) or read_han(scale)
    sign = (groups["sign"] or groups["sign2"] or "").strip().casefold()
    return value if sign in ("", "+", "±") else -value


def _read_base(groups: dict[str, str | None]) -> float | None:
    """Return the value without sign, power of ten, scale and unit. One of the six notations has matched."""
    if groups["frac_above"] and groups["frac_below"]:
        return _divide(float(groups["frac_above"]), float(groups["frac_below"]))
    if groups["han_above"] and groups["han_below"]:
        return _divide(
            _read_digits_or_han(groups["han_above"]), _read_digits_or_han(groups["han_below"])
        )
    if groups["digits"]:
        value = _read_decimal(groups["digits"], repeats=bool(groups["dots"]))
        if groups["power"]:  # 2^10
            try:
                return math.pow(value, int(groups["power"]))
            except (OverflowError, ValueError):
                return math.inf
        if groups["below"]:  # 3/4
            return _divide(value, float(groups["below"]))
        above = groups["mixed_above"] or groups["latex_above"]
        below = groups["mixed_below"] or groups["latex_below"]
        if above and below:  # 2 1/2
            return value + _divide(float(above), float(below))
        return value + (0.5 if groups["half"] else 0.0)  # 2 and a half
    if groups["han"] == "一半":
        return 0.5
    if groups["han"]:
        half = groups["han_half"] or ""
        return read_han(groups["han"].removesuffix(half)) + (0.5 if half else 0.0)
    if groups["korean"]:
        return read_korean(groups["korean"])
    if groups["fraction"]:
        return read_english_fraction(groups["fraction"])
    return read_english(groups["english"] or "") + (0.5 if groups["english_half"] else 0.0)


def _read_digits_or_han(numeral: str) -> float:
    """Return the value of "100" or of 百."""
    return float(numeral) if numeral[0].isascii() else read_han(numeral)


def _divide(above: float, below: float) -> float:
    """Divide; NaN for a denominator of 0."""
    return above / below if below else math.nan


def _read_decimal(digits: str, repeats: bool = False) -> float:
    """Return the value of digits with separators. The module docstring says which separators mark decimals.

    `repeats`: dots follow, so that the last digits are repeated: 0.333….
    """
    if digits[:2].lower() in ("0x", "0b"):
        return float(int(digits, 0))
    digits = re.sub(r"[ '’_]", "", digits[:400])
    if re.fullmatch(r"\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,}", digits):
        digits = digits.replace(".", "").replace(",", ".")
    elif re.fullmatch(r"\d{1,3}(?:,\d{2,3})*,\d{3}(?:\.\d+)?", digits):
        digits = digits.replace(",", "")
    digits = digits.replace(",", ".")
    period = re.search(r"\.\d*?(\d{1,3})\1+$", digits) if repeats else None
    if period:  # 0.333…
        digits += period[1] * 20
    return float(digits)


def _add_unit(value: float, match: re.Match[str], text: str) -> Number:
    """Return the number with the unit or percent sign around it."""
    in_words = bool(match["english"] or match["fraction"])

    def make_number(value: float, written: str, unit: str = "", percent: bool = False) -> Number:
        return Number(value, unit, percent, written.strip(), match.start(), match.end(), in_words)

    after = _AFTER.match(text[match.end() : match.end() + 40])
    # Chinese writes percent before the number: 百分之5. 百分之五 was read as a fraction, which is the share already.
    is_share = match["han_below"] in ("百", "100")
    if is_share or text.endswith("百分之", 0, match.start()):
        return make_number(value if is_share else value / 100, match[0], percent=True)
    for kind, whole in (("percent", 100), ("mille", 1000), ("tenths", 10)):
        if after and after[kind]:
            return make_number(value / whole, match[0] + after[0], percent=True)

    money = (match["money"] or "").strip()  # the sign of a currency before the number
    word_after = after["unit"] if after else ""
    name = _find_unit(money or word_after or "")
    per = None
    if after and not money:  # 72 kilometres per hour
        per = _PER.match(text, match.end() + after.start("unit") + len(name))
    compound = f"{name}/{per[1].casefold()}" if per else ""
    if measure_unit(compound):
        name = compound
    measure = measure_unit(name)
    if measure is None:
        return make_number(value, match[0])
    factor, dimension = measure
    space = " " if name.isascii() else ""
    written = match[0] if money else match[0].strip() + space + name
    return make_number(value * factor, written, dimension if dimension in _MONEY else name)


def _find_unit(word: str) -> str:
    """Return the unit that a word is or begins with; "" for compounds of unknown parts (N/m).

    A word that is no unit is returned in small letters; `measure_unit` gives None for it.
    """
    word = word.casefold().replace("{", "").replace("}", "")
    if word.startswith(("^\\circ", "\\circ")):
        return "°c" if word.endswith("c") and not word.endswith("circ") else "°"
    compound = _COMPOUND_UNIT.match(word)
    if compound and measure_unit(compound[0]):
        return compound[0]
    if re.match(r"\w+(?:/|每|\\cdot|·)\w", word):
        return ""
    while word and word not in read_units() and not word.isascii():
        word = word[:-1]  # 米长, 元左右: Chinese words follow without a space
    return word
