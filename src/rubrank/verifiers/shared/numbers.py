"""Numbers as people write them: 1,234.5 · 3/4 · 1.2 × 10^5 · 45% · 五百二十 · 三分之二 · forty-two · 5 km.

>>> read_numbers("about 1,200 m")[0]
Number(value=1200.0, unit='m', percent=False)
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field

_DIGITS = "零〇一二三四五六七八九"
_CHINESE = {c: max(0, i - 1) if i > 1 else 0 for i, c in enumerate(_DIGITS)} | {"两": 2, "兩": 2}
_STEPS = {"十": 10, "百": 100, "千": 1000}
_SCALES = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}
_SMALL = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen"""
_TIES = "twenty thirty forty fifty sixty seventy eighty ninety"
_ENGLISH = {w: i for i, w in enumerate(_SMALL.split())} | {w: 10 * i for i, w in enumerate(_TIES.split(), 2)}
_TENS = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}

# (factor, dimension) of the units that are known.
_UNITS = """
length: km 千米 公里 kilometers kilometres kilometer=1000; m 米 meters metres meter metre=1; cm 厘米 centimeters=0.01
length: mm 毫米=0.001; miles mile 英里=1609.344; ft feet foot 英尺=0.3048; in inches inch 英寸=0.0254; yd yards=0.9144
mass: kg 千克 公斤 kilograms kilogram=1; g 克 grams gram=0.001; mg 毫克=0.000001; t 吨 tonnes tons=1000; 斤=0.5
mass: lb lbs pounds 磅=0.45359237
time: h hr hrs hours hour 小时=3600; min mins minutes minute 分钟=60; s sec seconds second 秒=1; ms 毫秒=0.001
time: days day 天=86400; weeks 周=604800
volume: l liters litres liter 升=1; ml 毫升=0.001
area: m² m^2 平方米=1; km² km^2 平方千米 平方公里=1000000; cm² cm^2 平方厘米=0.0001; ha 公顷=10000
yuan: 元 圆 rmb cny ¥ yuan=1
dollar: $ usd dollars dollar 美元=1; cents=0.01
euro: € eur euros 欧元=1
pound: £ gbp 英镑=1
celsius: °c ℃ 摄氏度=1
degree: ° 度 degrees=1
"""
UNITS: dict[str, tuple[float, str]] = {}
for _line in _UNITS.split("\n")[1:-1]:
    _dimension, _, _table = _line.partition(": ")
    for _entry in _table.split("; "):
        _names, _, _factor = _entry.partition("=")
        UNITS |= dict.fromkeys(_names.split(), (float(_factor), _dimension))

_PLAIN = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,3}(?:[ \u202f\u00a0]\d{3})+(?!\d)|\d+(?:[.,]\d+)?|\.\d+"
_HAN = r"[零〇一二三四五六七八九两兩十百千万萬亿億]+"
_WORDS = "|".join([*_ENGLISH, *_TENS])
_NUMBER = re.compile(
    rf"(?P<sign>(?<![\w)])[-−–+]\s?)?(?P<money>[$€£¥])?(?:"
    rf"\\[dt]?frac\{{(?P<fn>-?\d+)\}}\{{(?P<fd>\d+)\}}|(?P<parts>{_HAN})分之(?P<of>{_HAN}(?:点{_HAN})?)"
    rf"|(?P<num>{_PLAIN})(?:\s?/\s?(?P<den>\d+(?:\.\d+)?)(?![\d/])|\s+(?P<mn>\d+)/(?P<md>\d+))?"
    rf"|(?P<han>{_HAN}(?:点[零〇一二三四五六七八九]+)?)|(?P<word>\b(?:{_WORDS})(?:(?:\s+and)?[\s-]+(?:{_WORDS}))*\b))"
    r"(?:\s?(?:[x×*·]|\\times|\\cdot)\s?10\s?(?:\^|\*\*)?\s?\{?(?P<exp>[-−+]?\d+)\}?|[eE](?P<e>[-+]?\d{1,3})(?!\w))?"
    r"\s?(?P<scale>[万萬亿億千百]+|(?:thousand|million|billion|trillion|k|bn)\b)?",
    re.IGNORECASE,
)
_AFTER = re.compile(
    r"[\s~]*(?:\\?%|％|percent|per cent)|[\s~]*\\?(?:text|mathrm)?\{?\s*([^\s\d.,;:!?。，；：！？、)）}]{1,14})",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Number:
    """A value in base units of its dimension; `percent`: written with a percent sign, the value being the share."""

    value: float
    unit: str = ""
    percent: bool = False
    written: str = field(default="", compare=False, repr=False)
    """As it stands in the text, with its unit."""


def read_numbers(text: str) -> list[Number]:
    """All numbers of the text, in order."""
    text = unicodedata.normalize("NFKC", text.replace("½", " 1/2").replace("¼", " 1/4").replace("¾", " 3/4")).replace(
        "−", "-"
    )
    text = re.sub(r"\\[,!; ]|\{,\}", "", text)
    found = []
    for match in _NUMBER.finditer(text):
        value = _value(match)
        if value is not None:
            found.append(_with_unit(value, match, text))
    return found


def _value(match: re.Match[str]) -> float | None:
    part = match.groupdict()
    if part["fn"]:
        value = _ratio(float(part["fn"]), float(part["fd"]))
    elif part["parts"]:
        value = _ratio(_han(part["of"]), _han(part["parts"]))
    elif part["num"]:
        value = _decimal(part["num"])
        value = _ratio(value, float(part["den"])) if part["den"] else value
        value = value + _ratio(float(part["mn"]), float(part["md"])) if part["mn"] else value
    else:
        value = _han(part["han"]) if part["han"] else _english(part["word"])
    value *= 10.0 ** max(-300, min(300, int((part["exp"] or part["e"] or "0").replace("−", "-"))))
    value *= _scale(part["scale"])
    return -value if (part["sign"] or "").strip() in ("-", "–") else value


def _ratio(a: float, b: float) -> float:
    return a / b if b else float("nan")


def _decimal(digits: str) -> float:
    """A comma before three digits groups, any other one is a decimal comma."""
    digits = re.sub(r"[ \u202f\u00a0]", "", digits[:400])
    if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", digits):
        return float(digits.replace(",", ""))
    return float(digits.replace(",", "."))


def _scale(name: str | None) -> float:
    factors = {"k": 1e3, "thousand": 1e3, "million": 1e6, "billion": 1e9, "bn": 1e9, "trillion": 1e12}
    if not name:
        return 1.0
    if name.lower() in factors:
        return factors[name.lower()]
    value = 1.0
    for char in name[:8]:
        value *= _STEPS.get(char) or _SCALES.get(char) or 1
    return value


def _han(numeral: str) -> float:
    whole, _, decimals = numeral[:60].partition("点")
    if not any(c in _STEPS or c in _SCALES for c in whole):  # 二〇二四: digit by digit
        value = float("".join(str(_CHINESE[c]) for c in whole) or 0)
    else:
        value = _han_steps(whole)
    return value + float("0." + ("".join(str(_CHINESE[c]) for c in decimals) or "0"))


def _han_steps(numeral: str) -> float:
    total = section = digit = 0
    for char in numeral:
        if char in _CHINESE:
            digit = _CHINESE[char]
        elif char in _STEPS:
            section += (digit or 1) * _STEPS[char]
            digit = 0
        else:
            total = (
                (total + section + digit) * _SCALES[char]
                if char in "亿億"
                else total + (section + digit) * _SCALES[char]
            )
            section = digit = 0
    return float(total + section + digit)


def _english(words: str) -> float:
    total = current = 0
    for word in re.split(r"[\s-]+", words.lower())[:40]:
        if word in _ENGLISH:
            current += _ENGLISH[word]
        elif word == "hundred":
            current = (current or 1) * 100
        elif word in _TENS:
            total += (current or 1) * _TENS[word]
            current = 0
    return float(total + current)


def _with_unit(value: float, match: re.Match[str], text: str) -> Number:
    before = text[max(0, match.start() - 4) : match.start()].endswith("百分之")
    written = ("百分之" if before else "") + match[0].strip()
    if match["parts"] == "百":
        return Number(value, percent=True, written=written)
    after = _AFTER.match(text[match.end() : match.end() + 40])
    if before or (after and after[1] is None):
        return Number(value / 100, percent=True, written=written if before else match[0] + (after[0] if after else ""))
    name = (match["money"] or (after[1] if after else "") or "").lower()
    while name and name not in UNITS and not name.isascii():
        name = name[:-1]  # 米长, 元左右
    if name not in UNITS:
        return Number(value, written=written)
    factor, dimension = UNITS[name]
    if after and not match["money"]:
        written = match[0] + after[0][: after.start(1) + len(name)]
    return Number(
        value * factor, dimension if dimension in ("yuan", "dollar", "euro", "pound") else name, written=written.strip()
    )
