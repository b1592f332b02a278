"""Numbers as people write them: 1,234.5 · 1.234,5 · 3/4 · 2^10 · 1.2 × 10^5 · 45% · 五百二十 · forty-two · 5 km.

>>> read_numbers("about 1,200 m")[0]
Number(value=1200.0, unit='m', percent=False)

Digits of all scripts count. A comma before exactly three digits groups (1,234 is a thousand), any other single one
divides the decimals (3,14); with both signs the last one divides. Not covered: 1.234 as a thousand, when nothing else
shows it; Roman numerals.
"""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import dataclass, field

from rubrank._plain import word_list
from rubrank.verifiers.shared.arithmetic import spell_powers
from rubrank.verifiers.shared.numerals import (
    ENGLISH,
    ENGLISH_PART,
    HAN,
    HAN_DIGITS,
    HAN_SCALES,
    SINO_KOREAN,
    read_english,
    read_english_fraction,
    read_han,
    read_korean,
)
from rubrank.verifiers.shared.units import MONEY, UNITS

_PLAIN = (
    r"0[xX][0-9a-fA-F]{1,16}\b|0b[01]{1,60}\b"
    r"|\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,}(?![\d.])"  # 1.234.567,89
    r"|\d{1,3}(?:[ '’_]\d{3})+(?!\d)(?:[.,]\d+)?"  # 1 234 567,89 and 1'234'567.89
    r"|\d{1,2}(?:,\d{2})+,\d{3}(?!\d)(?:\.\d+)?"  # 12,34,567
    r"|\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:[.,]\d+)?|\.\d+"
)
_SMALL_HAN = f"[{HAN_DIGITS}]"
_SCALE = (
    r"[万萬亿億千百兆]+|[만억천]+(?=\D)"
    r"|(?:thousand|million|billion|trillion|k|bn|mn|millones|millón|millions|milliards?|millionen|milliarden|mrd|mio"
    r"|milhões|milhão|bilhões|milioni|miliardi|тыс|тысяч|млн|миллионов|млрд|miliar|juta|triệu|tỷ)\b"
)
_NUMBER = re.compile(
    r"(?P<sign>(?<![\w)])[-–+±]\s?|\b(?:minus|negative|moins|menos|meno|минус)\s|[负負]|マイナス)?"
    r"(?P<money>[$€£¥₹]\s?)?(?P<sign2>(?<=[$€£¥₹])-)?(?:"
    r"\\[dtc]?frac\s?\{?(?P<fn>-?\d+(?:\.\d+)?)\}?\s?\{?(?P<fd>(?<=[{}])\d+(?:\.\d+)?|\d)\}?"
    rf"|(?P<parts>{HAN}+|\d+)分之(?P<of>{HAN}+(?:[点點]{_SMALL_HAN}+)?|\d+(?:\.\d+)?)"
    rf"|(?P<num>{_PLAIN})(?:(?P<dots>\.\.\.|…)|(?:\^|\*\*)\s?\{{?(?P<power>-?\d{{1,4}})\}}?(?![\d.])"
    r"|\s?/\s?(?P<den>\d+(?:\.\d+)?)(?![\d/])|\s+(?:and\s+)?(?P<mn>\d+)\s?/\s?(?P<md>\d+)(?![\d/])"
    r"|\s?\\[dtc]?frac\s?\{(?P<xn>\d+)\}\s?\{(?P<xd>\d+)\}|(?P<half>\s+and\s+a\s+half\b))?"
    rf"|(?P<han>{HAN}+(?:[点點]{_SMALL_HAN}+)?(?P<hanhalf>个半|個半|半)?)|(?P<korean>{SINO_KOREAN}{{2,}})"
    rf"|(?P<part>{ENGLISH_PART})|(?P<word>{ENGLISH})(?P<wordhalf>\s+and\s+a\s+half\b)?)"
    r"(?:\s?(?:[x×*·⋅]|\\times|\\cdot)\s?10\s?(?:\^|\*\*)\s?\{?\s?(?P<exp>[-+]?\d{1,4})\}?"
    r"|[eE](?P<e>[-+]?\d{1,3})(?!\w))?"
    rf"\s?(?P<scale>{_SCALE})?",
    re.IGNORECASE,
)
_PERCENT = (
    r"\\?%|٪|percent(?:age points?)?|per cent|pct\b|por\s?ciento|por cento|pour cent|prozent|procent|per cento"
    r"|процент\w*|パーセント|퍼센트|프로(?!\w)|phần trăm|persen|yüzde|เปอร์เซ็นต์"
)
_AFTER = re.compile(
    rf"[\s~]*(?:(?P<percent>{_PERCENT})|(?P<mille>‰|permille)|(?P<tenths>成(?!\w)|割))"
    r"|[\s~]*\\?(?:text|mathrm|operatorname)?\{?\s*(?P<unit>\^?\\circ\s?C?|[^\s\d.,;:!?。，；：！？、)）}$=<>|]"
    r"[^\s.,;:!?。，；：！？、)）}$=<>|]{0,13}(?:\^?\{?[23]\}?(?=\W|$))?)",
    re.IGNORECASE,
)
_MILLIONS = word_list("""
    million mn mio millones millón millions millionen milhões milhão milioni млн миллионов juta triệu
""")
_BILLIONS = word_list("billion bn milliard milliards milliarden mrd bilhões miliardi млрд miliar tỷ")
_FACTORS = {
    **dict.fromkeys(("k", "thousand", "тыс", "тысяч"), 1e3),
    **dict.fromkeys(_MILLIONS, 1e6),
    **dict.fromkeys(_BILLIONS, 1e9),
    "trillion": 1e12,
    "만": 1e4,
    "억": 1e8,
    "천": 1e3,
}
# x^2, x_1, H2O, B12: no numbers of their own; USD5 and Rs500 are.
_GLUED = re.compile(
    r"(?:[A-Za-zÀ-ɏ)}][\^_]\{?|(?<![A-Za-z])(?!(?:usd|eur|gbp|cny|rmb|inr|rs|us|nt|hk|x)\Z)[A-Za-z]{1,11})\Z", re.I
)
_FRACTION_SIGN = re.compile(r"(?<=\d)(?=[¼-¾⅐-⅞])")


@dataclass(frozen=True, slots=True)
class Number:
    """A value in base units of its dimension; `percent`: written with a percent sign, the value being the share."""

    value: float
    unit: str = ""
    percent: bool = False
    written: str = field(default="", compare=False, repr=False)
    """As it stands in the text, with its unit."""
    start: int = field(default=0, compare=False, repr=False)
    end: int = field(default=0, compare=False, repr=False)
    """Its place in `prepare(text)`, without the unit."""
    in_words: bool = field(default=False, compare=False, repr=False)


def prepare(text: str) -> str:
    """The text in which numbers are looked for: one width, ASCII digits, powers as ^{…}, no thin spaces of LaTeX."""
    text = spell_powers(_FRACTION_SIGN.sub(" ", text))
    text = unicodedata.normalize("NFKC", text).replace("−", "-").replace("⁄", "/").replace("\u00ad", "")
    text = re.sub(r"\\[,!;: ]|\{,\}|\\(?:left|right)\b", "", text).replace("٫", ".").replace("٬", ",")
    if text.isascii():
        return text
    return "".join(str(unicodedata.decimal(c)) if c > "\x7f" and c.isdecimal() else c for c in text)


def read_numbers(text: str) -> list[Number]:
    """All numbers of the text, in order."""
    text = prepare(text)
    found = []
    for match in _NUMBER.finditer(text):
        value = None if _GLUED.search(text, max(0, match.start() - 12), match.start()) else _value(match)
        if value is not None:
            found.append(_with_unit(value, match, text))
    return _joined(found, text)


def _joined(numbers: list[Number], text: str) -> list[Number]:
    """2亿3000万 and 1万5千 are one number each."""
    joined: list[Number] = []
    for number in numbers:
        before = joined[-1] if joined else None
        if before and before.end == number.start and before.written[-1:] in "万萬亿億만억" and not before.unit:
            both = Number(
                before.value + number.value,
                number.unit,
                False,
                before.written + number.written,
                before.start,
                number.end,
            )
            joined[-1] = both
        else:
            joined.append(number)
    return joined


def _value(match: re.Match[str]) -> float | None:
    part = match.groupdict()
    value = _base(part)
    if value is None:
        return None
    power = int((part["exp"] or part["e"] or "0").replace("−", "-"))
    value *= 10.0 ** max(-300, min(300, power))
    value *= _scale(part["scale"])
    sign = (part["sign"] or part["sign2"] or "").strip().casefold()
    return value if sign in ("", "+", "±") else -value


def _base(part: dict[str, str | None]) -> float | None:
    """The value without sign, power of ten, scale and unit."""
    if part["fn"] and part["fd"]:
        return _ratio(float(part["fn"]), float(part["fd"]))
    if part["parts"] and part["of"]:
        return _ratio(_either(part["of"]), _either(part["parts"]))
    if part["num"]:
        return _with_parts(_decimal(part["num"], repeats=bool(part["dots"])), part)
    if part["han"]:
        half = part["hanhalf"] or ""
        if part["han"] == "一半":
            return 0.5
        return read_han(part["han"].removesuffix(half)) + (0.5 if half else 0.0)
    if part["korean"]:
        return read_korean(part["korean"])
    if part["part"]:
        return read_english_fraction(part["part"])
    return read_english(part["word"] or "") + (0.5 if part["wordhalf"] else 0.0)


def _with_parts(value: float, part: dict[str, str | None]) -> float:
    if part["power"]:
        try:
            return math.pow(value, int(part["power"]))
        except (OverflowError, ValueError):
            return math.inf
    if part["den"]:
        return _ratio(value, float(part["den"]))
    above, below = part["mn"] or part["xn"], part["md"] or part["xd"]
    if above and below:
        return value + _ratio(float(above), float(below))
    return value + (0.5 if part["half"] else 0.0)


def _either(numeral: str) -> float:
    return float(numeral) if numeral[0].isascii() else read_han(numeral)


def _ratio(a: float, b: float) -> float:
    return a / b if b else float("nan")


def _decimal(digits: str, repeats: bool = False) -> float:
    """The last of two kinds of sign divides the decimals; a comma before three digits groups, any other one divides."""
    if digits[:2].lower() in ("0x", "0b"):
        return float(int(digits, 0))
    digits = re.sub(r"[ '’_]", "", digits[:400])
    if re.fullmatch(r"\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,}", digits):
        digits = digits.replace(".", "").replace(",", ".")
    elif re.fullmatch(r"\d{1,3}(?:,\d{2,3})*,\d{3}(?:\.\d+)?", digits):
        digits = digits.replace(",", "")
    digits = digits.replace(",", ".")
    if repeats and (last := re.search(r"\.\d*?(\d{1,3})\1+$", digits)):  # 0.333…
        digits += last[1] * 20
    return float(digits)


def _scale(name: str | None) -> float:
    if not name:
        return 1.0
    if name.lower() in _FACTORS:
        return _FACTORS[name.lower()]
    value = 1.0
    for char in name[:8]:
        value *= HAN_SCALES.get(char) or 1
    return value


def _with_unit(value: float, match: re.Match[str], text: str) -> Number:
    def number(value: float, written: str, unit: str = "", percent: bool = False) -> Number:
        in_words = bool(match["word"] or match["part"])
        return Number(value, unit, percent, written, match.start(), match.end(), in_words)

    before = text[max(0, match.start() - 4) : match.start()].endswith("百分之")
    written = ("百分之" if before else "") + match[0].strip()
    if match["parts"] in ("百", "100"):
        return number(value, written, percent=True)
    after = _AFTER.match(text[match.end() : match.end() + 40])
    for kind, share in (("percent", 100), ("mille", 1000), ("tenths", 10)):
        if (before and kind == "percent") or (after and after[kind]):
            return number(value / share, written if before or not after else match[0] + after[0], percent=True)
    money = (match["money"] or "").strip()
    name = _unit_name(money or (after["unit"] if after else "") or "")
    if name not in UNITS:
        return number(value, written)
    factor, dimension = UNITS[name]
    if after and not money:
        latex = "\\" in after[0]
        written = f"{match[0].strip()} {name}" if latex else match[0] + after[0][: after.start("unit") + len(name)]
    return number(value * factor, written.strip(), dimension if dimension in MONEY else name)


def _unit_name(name: str) -> str:
    """The unit that a word is or begins with; "" for compound ones (km/h), which are not converted."""
    name = name.casefold().replace("{", "").replace("}", "")
    if name.startswith(("^\\circ", "\\circ")):
        return "°c" if name.endswith("c") and not name.endswith("circ") else "°"
    if re.match(r"\w+(?:/|每|\\cdot|·)\w", name):
        return ""
    while name and name not in UNITS and not name.isascii():
        name = name[:-1]  # 米长, 元左右
    return name
