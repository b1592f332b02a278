"""Numbers in words: 壹佰贰拾, 廿三, 삼백이십, forty-two, cuarenta y dos, quatre-vingt-dix-sept, zweiundvierzig.

>>> read_han("壹佰贰拾"), read_han("三万五"), read_number_words("quatre-vingt-dix-sept")
(120.0, 35000.0, 97.0)
"""

from __future__ import annotations

import re

# ---- Chinese, Japanese, Korean ------------------------------------------------------------------------------------

_DIGITS = {
    c: i
    for i, group in enumerate(
        ("零〇○", "一壹壱弌幺", "二贰貳弐兩两", "三叁參参", "四肆", "五伍", "六陆陸", "七柒漆", "八捌", "九玖")
    )
    for c in group
}
_STEPS = {"十": 10, "拾": 10, "廿": 20, "卅": 30, "卌": 40, "百": 100, "佰": 100, "陌": 100, "千": 1000, "仟": 1000}
_SCALES = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8, "兆": 10**12}
HAN_SCALES = {**_STEPS, **_SCALES}
HAN_DIGITS = "".join(_DIGITS)
HAN = f"[{HAN_DIGITS}{''.join(HAN_SCALES)}]"

_KOREAN = {c: i for i, c in enumerate("영일이삼사오육칠팔구")} | {"공": 0, "륙": 6}
_KOREAN_STEPS = {"십": "十", "백": "百", "천": "千", "만": "万", "억": "亿"}
_KOREAN_TENS = dict(
    zip(["열", "스물", "서른", "마흔", "쉰", "예순", "일흔", "여든", "아흔"], range(10, 100, 10), strict=True)
) | {"스무": 20}
_KOREAN_ONES = dict(zip(["하나", "둘", "셋", "넷", "다섯", "여섯", "일곱", "여덟", "아홉"], range(1, 10), strict=True))
_KOREAN_ONES |= {"한": 1, "두": 2, "세": 3, "네": 4}
_NATIVE = re.compile(rf"({'|'.join(_KOREAN_TENS)})?({'|'.join(sorted(_KOREAN_ONES, key=len, reverse=True))})?")
SINO_KOREAN = f"[{''.join(_KOREAN)}{''.join(_KOREAN_STEPS)}]"


def read_han(numeral: str) -> float:
    """A numeral of Chinese characters, formal or not; 点 divides the decimals."""
    whole, _, decimals = numeral[:60].replace("點", "点").partition("点")
    digits = "".join(str(_DIGITS[c]) for c in decimals if c in _DIGITS)
    if not any(c in HAN_SCALES for c in whole):  # 二〇二四: digit by digit
        value = float("".join(str(_DIGITS[c]) for c in whole) or 0)
    else:
        value = _steps(whole)
    return value + float("0." + (digits or "0"))


def _steps(numeral: str) -> float:
    total = section = digit = last = 0
    zero = False
    for char in numeral:
        if char in _DIGITS:
            digit, zero = _DIGITS[char], _DIGITS[char] == 0
        elif char in "廿卅卌":
            section, digit, last = section + _STEPS[char], 0, 10
        elif char in _STEPS:
            section, digit, last = section + (digit or 1) * _STEPS[char], 0, _STEPS[char]
        else:
            scale = _SCALES[char]
            part = section + digit or 1
            total = (total + part) * scale if scale > 10**4 else total + part * scale
            section, digit, last, zero = 0, 0, scale, False
    # 一百二 is 120, 三万五 is 35,000; 一百零二 is 102
    short = digit and not zero and last > 10 and len(numeral) > 1 and numeral[-2] in HAN_SCALES
    return float(total + section + (digit * last // 10 if short else digit))


def read_korean(numeral: str) -> float | None:
    """A Sino-Korean or native Korean numeral; None if it is none."""
    numeral = numeral.replace(" ", "")[:40]
    native = _NATIVE.fullmatch(numeral)
    if native and numeral:
        return float(_KOREAN_TENS.get(native[1] or "", 0) + _KOREAN_ONES.get(native[2] or "", 0))
    if not numeral or re.fullmatch(f"{SINO_KOREAN}+", numeral) is None:
        return None
    chinese = "零一二三四五六七八九"
    written = "".join(chinese[_KOREAN[c]] if c in _KOREAN else _KOREAN_STEPS[c] for c in numeral)
    # Korean has no short form: 백이 is 102.
    return read_han(re.sub("(?<=[百千万亿])(?=[一二三四五六七八九]$)", "零", written))


# ---- English -------------------------------------------------------------------------------------------------------

_SMALL = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen"""
_TIES = "twenty thirty forty fifty sixty seventy eighty ninety"
_ENGLISH = {w: i for i, w in enumerate(_SMALL.split())} | {w: 10 * i for i, w in enumerate(_TIES.split(), 2)}
_ENGLISH |= {"fourty": 40, "dozen": 12}
_LARGE = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_PARTS = dict(
    zip(
        ["half", "third", "quarter", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"], range(2, 11), strict=True
    )
)
_ANY = "|".join([*sorted(_ENGLISH, key=len, reverse=True), *_LARGE])
ENGLISH = rf"\b(?:a\s+(?:hundred|thousand|million|billion|dozen)|{_ANY})(?:(?:\s+and)?[\s-]+(?:{_ANY}))*+\b"
_PART = "|".join([*_PARTS, "halve"])
ENGLISH_PART = (
    rf"\b(?:(?:{'|'.join(_ENGLISH)}|an?)[\s-]+)?(?:{_PART})s?\b(?!\s+(?:of\s+the\s+(?:list|test)|grade|place))"
)


def read_english(words: str) -> float:
    """Words such as "three hundred and five"."""
    total = current = 0
    for word in re.split(r"[\s-]+", words.lower())[:40]:
        if word == "dozen":
            current = (current or 1) * 12
        elif word in _ENGLISH:
            current += _ENGLISH[word]
        elif word == "hundred":
            current = (current or 1) * 100
        elif word in _LARGE:
            total += (current or 1) * _LARGE[word]
            current = 0
    return float(total + current)


def read_english_fraction(words: str) -> float:
    """Words such as "three quarters", "half", "a third"."""
    *many, part = re.split(r"[\s-]+", words.lower())
    singular = part.rstrip("s")
    return (_ENGLISH.get(many[0], 1) if many else 1) / _PARTS.get("half" if singular == "halve" else singular, 1)


# ---- other languages: words, alone or glued together ----------------------------------------------------------------

_TABLES = {
    "fr": "zéro=0 un=1 une=1 deux=2 trois=3 quatre=4 cinq=5 six=6 sept=7 huit=8 neuf=9 dix=10 onze=11 douze=12 "
    "treize=13 "
    "quatorze=14 quinze=15 seize=16 vingt=20 vingts=20 trente=30 quarante=40 cinquante=50 soixante=60 septante=70 "
    "huitante=80 octante=80 nonante=90 cent=x100 cents=x100 mille=x1000 million=x1000000 millions=x1000000 et=+",
    "es": "cero=0 un=1 uno=1 una=1 dos=2 tres=3 cuatro=4 cinco=5 seis=6 siete=7 ocho=8 nueve=9 diez=10 once=11 doce=12 "
    "trece=13 catorce=14 quince=15 dieciséis=16 diecisiete=17 dieciocho=18 diecinueve=19 veinte=20 veintiuno=21 "
    "veintiún=21 veintidós=22 veintitrés=23 veinticuatro=24 veinticinco=25 veintiséis=26 veintisiete=27 veintiocho=28 "
    "veintinueve=29 treinta=30 cuarenta=40 cincuenta=50 sesenta=60 setenta=70 ochenta=80 noventa=90 cien=x100 "
    "ciento=x100 doscientos=200 trescientos=300 cuatrocientos=400 quinientos=500 seiscientos=600 setecientos=700 "
    "ochocientos=800 novecientos=900 mil=x1000 millón=x1000000 millones=x1000000 y=+",
    "pt": "zero=0 um=1 uma=1 dois=2 duas=2 três=3 quatro=4 cinco=5 seis=6 sete=7 oito=8 nove=9 dez=10 onze=11 doze=12 "
    "treze=13 catorze=14 quatorze=14 quinze=15 dezesseis=16 dezasseis=16 dezessete=17 dezoito=18 dezenove=19 vinte=20 "
    "trinta=30 quarenta=40 cinquenta=50 sessenta=60 setenta=70 oitenta=80 noventa=90 cem=100 cento=100 duzentos=200 "
    "trezentos=300 quatrocentos=400 quinhentos=500 seiscentos=600 setecentos=700 oitocentos=800 novecentos=900 "
    "mil=x1000 milhão=x1000000 milhões=x1000000 e=+",
    "it": "zero=0 un=1 uno=1 una=1 due=2 tre=3 tré=3 quattro=4 cinque=5 sei=6 sette=7 otto=8 nove=9 dieci=10 undici=11 "
    "dodici=12 tredici=13 quattordici=14 quindici=15 sedici=16 diciassette=17 diciotto=18 diciannove=19 venti=20 "
    "vent=20 "
    "trenta=30 trent=30 quaranta=40 quarant=40 cinquanta=50 cinquant=50 sessanta=60 sessant=60 settanta=70 settant=70 "
    "ottanta=80 ottant=80 novanta=90 novant=90 cento=x100 cent=x100 mille=x1000 mila=x1000 milione=x1000000 "
    "milioni=x1000000 e=+",
    "de": "null=0 ein=1 eins=1 eine=1 zwei=2 zwo=2 drei=3 vier=4 fünf=5 sechs=6 sieben=7 acht=8 neun=9 zehn=10 elf=11 "
    "zwölf=12 dreizehn=13 vierzehn=14 fünfzehn=15 sechzehn=16 siebzehn=17 achtzehn=18 neunzehn=19 zwanzig=20 "
    "dreißig=30 "
    "dreissig=30 vierzig=40 fünfzig=50 sechzig=60 siebzig=70 achtzig=80 neunzig=90 hundert=x100 tausend=x1000 "
    "million=x1000000 millionen=x1000000 und=+",
    "nl": "nul=0 een=1 één=1 twee=2 drie=3 vier=4 vijf=5 zes=6 zeven=7 acht=8 negen=9 tien=10 elf=11 twaalf=12 "
    "dertien=13 "
    "veertien=14 vijftien=15 zestien=16 zeventien=17 achttien=18 negentien=19 twintig=20 dertig=30 veertig=40 "
    "vijftig=50 "
    "zestig=60 zeventig=70 tachtig=80 negentig=90 honderd=x100 duizend=x1000 miljoen=x1000000 en=+ ën=+",
    "ru": "ноль=0 один=1 одна=1 два=2 две=2 три=3 четыре=4 пять=5 шесть=6 семь=7 восемь=8 девять=9 десять=10 "
    "одиннадцать=11 двенадцать=12 тринадцать=13 четырнадцать=14 пятнадцать=15 шестнадцать=16 семнадцать=17 "
    "восемнадцать=18 девятнадцать=19 двадцать=20 тридцать=30 сорок=40 пятьдесят=50 шестьдесят=60 семьдесят=70 "
    "восемьдесят=80 девяносто=90 сто=100 двести=200 триста=300 четыреста=400 пятьсот=500 шестьсот=600 семьсот=700 "
    "восемьсот=800 девятьсот=900 тысяча=x1000 тысячи=x1000 тысяч=x1000 миллион=x1000000 миллиона=x1000000",
}


_WORDS = {code: dict(entry.split("=") for entry in entries.split()) for code, entries in _TABLES.items()}
_TOKENS = {code: re.compile("|".join(sorted(table, key=len, reverse=True))) for code, table in _WORDS.items()}


def read_number_words(words: str) -> float | None:
    """A number in words of French, Spanish, Portuguese, Italian, German, Dutch or Russian, if that is all there is."""
    plain = re.sub(r"[\s\-‐­]+", "", words.casefold())[:200].replace("ß", "ss")
    if not plain or not plain.isalpha():
        return None
    plain = plain.replace("quatrevingts", "octante").replace("quatrevingt", "octante")
    for code in _WORDS:
        value = _sum(plain, code)
        if value is not None:
            return value
    return None


def _sum(plain: str, code: str) -> float | None:
    total = current = at = 0
    while at < len(plain):
        token = _TOKENS[code].match(plain, at)
        if token is None:
            return None
        value, at = _WORDS[code][token[0]], token.end()
        if value == "+":
            continue
        if not value.startswith("x"):
            current += int(value)
        elif value == "x100":
            current = (current or 1) * 100
        else:
            total, current = total + (current or 1) * int(value[1:]), 0
    return float(total + current)
