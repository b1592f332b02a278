"""GarbledText: can the text be read (1 = fine, 0 = the reward is stopped)?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import without_code
from rubrank.verifiers.verifier import BINARY, Answer, verifier

_BROKEN = re.compile(
    "[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f-\x84\x86-\x9f\ufffd\ufdd0-\ufdef\ufffe\uffff\ud800-\udfff\ue000-\uf8ff]+"
)
_NOT_ASCII = re.compile("[^\x00-\x7f]+")
_KNOWN_MOJIBAKE = re.compile("锟斤拷|烫烫烫|屯屯屯|ï¿½|â€[™œ\x9d\x9c“”˜¦]|Ã[\x80-\xbf©¨¡³±¶¼¤§]|鈥[檚檛淭渓滄]")
_HIGH = re.compile("[\x80-\xffŒœŠšŸŽžƒˆ˜–—‘’‚“”„†‡•…‰‹›€™]{2,}")
_WESTERN = re.compile("[\xa1-\xfe]{6,}")
_SIGNS_ALONE = re.compile("[×±÷·°²³¹½¼¾µ¬¡¿«»§¶©®–—‘’“”…•]+")
_HAN = re.compile("[\u4e00-\u9fff]")
_IN_LATIN = re.compile(r"(?<=[A-Za-z])[\u4e00-\u9fff](?=[a-z]|[.,;:!?]?\s[a-z])")
_HAN_RUN = re.compile("[\u4e00-\u9fff€]{3,}")
_MATHS = re.compile(
    r"\$\$[^$]{1,5000}\$\$|\$[^$\n]{1,1000}\$"
    # A backslash may not begin another opening bracket: a megabyte of them would be tried from each one on.
    r"|\\\[(?:[^\\]|\\(?![\[\]])){1,5000}+\\\]|\\\((?:[^\\]|\\(?![()])){1,2000}+\\\)|\\[a-zA-Z]+"
)
_STACKED = re.compile("[\u0300-\u036f]{4,}")
_SCRIPTS = (
    ("Latin", "A-Za-zÀ-ɏ"),
    ("Cyrillic", "Ѐ-ӿ"),
    ("Arabic", "\u0600-\u06ff"),
    ("Hebrew", "\u0590-\u05ff"),
    ("Thai", "\u0e00-\u0e7f"),
    ("Hangul", "가-힣"),
    ("Devanagari", "\u0900-\u097f"),
    ("Kana", "ぁ-ヿ"),
    ("Han", "\u3400-\u9fff"),
)
_NOT_LATIN = re.compile(f"[{''.join(letters for _, letters in _SCRIPTS[1:])}]")
_JOINED = re.compile("|".join(f"(?P<{name}>[{letters}]+)" for name, letters in _SCRIPTS))
_HAPPY = (
    {"Han", "Kana"},
    {"Latin", "Han"},
    {"Latin", "Kana"},
    {"Latin", "Hangul"},
    {"Han", "Hangul"},
    {"Latin", "Thai"},
)
_SOUP = 60  # characters of a line from which a mix of signs is no longer writing
_ESCAPES = re.compile(
    r"\\u[0-9a-fA-F]{4}|\\x[89a-fA-F][0-9a-fA-F]|&#(?:\d{3,6}|x[0-9a-fA-F]{2,5});|(?:%[89A-F][0-9A-F]){3,}"
)
_TOKENS = re.compile(
    r"<unk>|<pad>|\[UNK\]|\[PAD\]|\[SEP\]|\[CLS\]|\[MASK\]|<mask>|<eos>|<bos>|<extra_id_\d+>|<0x[0-9A-F]{2}>"
    r"|<\|(?:end_of_text|endoftext|pad|eot_id|im_end)\|>|<｜[^<>｜]{1,30}｜>|(?:[▁Ġ][A-Za-z]+[ ,.]{0,2}){2,}|Ċ{2,}"
)
# What stands in each of them: sought several times as fast as the pattern.
_TOKEN_SIGNS = (
    *("<unk>", "<pad>", "[UNK]", "[PAD]", "[SEP]", "[CLS]", "[MASK]", "<mask>", "<eos>", "<bos>"),
    *("<extra_id_", "<0x", "<|", "<｜", "▁", "Ġ", "Ċ"),
)
_CIPHER = re.compile(
    r"cipher|encrypt|decrypt|encod|decod|password|random|token|hash|base64|sequence|dna\b|protein|scrambl|anagram|gibberish"
    r"|made-up|invent|lojban|conlang|escape|unicode|keyboard|nonsense|密码|加密|解密|随机|乱码|序列|编码|转义",
    re.IGNORECASE,
)
# Pairs of letters that occur in European languages, by their first letter; random letters hit them half of the time.
_PAIRS = {
    "a": "abcdfghijklmnopqrstuvwyz",
    "b": "aeilorsuy",
    "c": "acehiklorstuyz",
    "d": "adeijlorstuvyz",
    "e": "abcdefghijklmnopqrstuvwxyz",
    "f": "adefilorstuy",
    "g": "abeghijklnoprstuy",
    "h": "aceiklnortuvy",
    "i": "abcdefghijklmnopqrstuvxyz",
    "j": "aefimou",
    "k": "aehiklnorstuy",
    "l": "adefijklmnopstuvy",
    "m": "abeijklmnopsuvy",
    "n": "abcdefghijklmnostuvyz",
    "o": "abcdefgijklmnoprstuvwyz",
    "p": "aefhijlmoprstuy",
    "q": "u",
    "r": "abcdefgijklmnoprstuvwyz",
    "s": "abcdehiklmnopqstuyz",
    "t": "acehijklmnorstuwyz",
    "u": "abcdefghijklmnoprstuvwxz",
    "v": "aeilnoruy",
    "w": "aehinorsy",
    "x": "aeipt",
    "y": "acdehijmoprstv",
    "z": "abcdeituvw",
}
_KNOWN_PAIRS = np.zeros((128, 128), dtype=bool)
for _first, _others in _PAIRS.items():
    _KNOWN_PAIRS[ord(_first), [*map(ord, _others)]] = True
_SPELLED = re.compile(r"(?<![^\W_])(?:[A-Z]?[a-z]{3,}|[A-Z]{12,})(?![^\W_])")
_FEW_PAIRS, _KNOWN_SHARE = 45, 0.75
_LOOKED_AT = 4_500  # characters of the beginning and the end in which random letters are looked for


@verifier("GarbledText", family="gate", domain=BINARY, version=2, layer="global_quality")
def garbled_text(rollout: Rollout) -> Answer:
    """The text can be read.

    Fails: broken characters (replacement, control, private use, lone surrogates) in three places, or two of a short
    text; wrongly decoded text ("â€™", "浣犲ソ", "锟斤拷"); letters as escapes (`\\u6c34`, `&#27700;`); tokens of a
    model's vocabulary (`<unk>`, `<pad>`, `</s>`); random letters; long stretches of mixed signs without words; words
    that mix scripts, three or more; letters under heaps of accents. Passes: code, mathematics, emoji, tables,
    drawings of lines, every script, and what the prompt itself contains or speaks of (ciphers, escapes). Not covered:
    real words in senseless order.
    """
    prose = without_code(rollout.answer)
    for what, n in _signs_of_garbling(prose, rollout.question):
        if n and not any(n <= m for kind, m in _signs_of_garbling(rollout.question, "") if kind == what):
            return False, f"{what}: {n}"
    return True, "readable"


def _signs_of_garbling(text: str, question: str) -> Iterator[tuple[str, int]]:
    """Each sign with how often it occurs, 0 where it is too seldom to matter."""
    beyond = " ".join(_NOT_ASCII.findall(text))
    broken = _BROKEN.findall(text)
    many = len(broken) >= 3 or (len(broken) >= 2 and len(text) < 200) or 20 * sum(map(len, broken)) > len(text)
    yield "places with broken characters", len(broken) if many else 0
    wrong = max(len(_KNOWN_MOJIBAKE.findall(beyond)), _decodable(text, beyond)) if beyond else 0
    yield "wrongly decoded passages", wrong if wrong >= 2 or 20 * wrong > len(text) else 0
    stacked = len(_STACKED.findall(beyond))
    yield "letters under heaps of accents", stacked if stacked >= 3 else 0
    mixed = _mixed_words(text) if _NOT_LATIN.search(beyond) else 0
    yield "words of mixed scripts", mixed if mixed >= 3 else 0
    yield "lines of signs without words", sum(map(_is_soup, _without_maths(text).splitlines()))
    tokens = len(_TOKENS.findall(text)) if any(sign in text for sign in _TOKEN_SIGNS) else 0
    tokens += text.count("</s>") if "<s>" not in text else 0
    yield "tokens of a vocabulary", tokens
    if not _CIPHER.search(question):
        escapes = len(_ESCAPES.findall(text)) if any(sign in text for sign in ("\\u", "\\x", "&#", "%")) else 0
        many = escapes >= 3 or (escapes > 0 and 6 * escapes > len(text.split()))
        yield "letters as escapes", escapes if many else 0
        yield "words of random letters", _random_words(text)


def _decodable(text: str, beyond: str) -> int:
    """Passages that are really the bytes of UTF-8 (or GBK), read as another encoding."""
    western = sum(_was_utf8(run) for run in _HIGH.findall(beyond) if not _SIGNS_ALONE.fullmatch(run))
    as_latin = sum(_was_gbk(run) for run in _WESTERN.findall(beyond))
    chinese = sum(map(_was_utf8_as_gbk, _HAN_RUN.findall(beyond)))
    accents = sum(map(_was_accent, _IN_LATIN.findall(text))) if _HAN.search(beyond) else 0
    common = 5 * chinese >= len(_HAN.findall(beyond))  # now and then real words make such bytes
    return western + as_latin + accents + (chinese if common else 0)


def _was_utf8(run: str) -> int:
    """How many passages of UTF-8 read as cp1252 this is; a few bytes may be lost."""
    try:
        coded = run.translate(_CP1252).encode("latin-1")
    except ValueError:
        return 0
    letters = coded.decode("utf-8", "ignore")
    return 1 + len(letters) // 4 if letters and 10 * len(letters.encode()) >= 7 * len(coded) else 0


# Bytes that cp1252 leaves open are kept as they are, as careless programs do.
_CP1252 = {ord(bytes([b]).decode("cp1252")): b for b in range(0x80, 0xA0) if b not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)}


def _was_utf8_as_gbk(run: str) -> int:
    """Letters of UTF-8 that was read as GBK: written in GBK again, they are the bytes of UTF-8, in one script."""
    coded = run.encode("gbk", "ignore")
    letters = coded.decode("utf-8", "ignore")
    sensible = any(block.fullmatch(letters) for block in _BLOCKS)
    return len(letters) if sensible and 4 * len(letters.encode()) >= 3 * len(coded) else 0


_BLOCKS = [
    re.compile(f"[{letters}]{{2,}}")
    for letters in (
        "\u4e00-\u9fff\u3000-\u30ff\uff00-\uffef“”‘’…—",
        "А-яёЁіїєў",
        "À-ÿ",
        "α-ωΑ-Ω",
        "ء-ي",
        "א-ת",
        "가-힣",
    )
]


def _was_accent(char: str) -> bool:
    """A letter with an accent, read as GBK: the 茅 of caf茅."""
    try:
        return "À" <= char.encode("gbk").decode("utf-8") <= "ÿ"
    except (ValueError, TypeError):
        return False


def _was_gbk(run: str) -> bool:
    """GBK read as Latin: many accents in a row, which make Chinese characters."""
    try:
        letters = run[: len(run) // 2 * 2].encode("latin-1").decode("gbk")
    except ValueError:
        return False
    return len(set(run)) >= 4 and sum("\u4e00" <= c <= "\u9fff" for c in letters) * 2 > len(letters)


def _without_maths(text: str) -> str:
    return _MATHS.sub(" ", text) if "$" in text or "\\" in text else text


def _mixed_words(text: str) -> int:
    count, end, scripts = 0, -1, set[str]()
    for run in _JOINED.finditer(text):
        scripts = scripts | {run.lastgroup or ""} if run.start() == end else {run.lastgroup or ""}
        count += run.start() == end and not any(scripts <= happy for happy in (*_HAPPY, {"Han", "Kana", "Latin"}))
        end = run.end()
    return count


def _is_soup(line: str) -> bool:
    """A long line of many different ASCII signs and few letters; no rule, drawing, table or emoji."""
    if len(line) < _SOUP:
        return False
    dense = "".join(line.split())
    if len(dense) < _SOUP or dense.count("|") >= 2:
        return False
    signs = Counter(c for c in dense if c.isascii() and not c.isalnum())
    letters = sum(map(str.isalpha, dense))
    common = signs.most_common(2)
    return (
        len(signs) >= 8
        and 2 * signs.total() > len(dense)
        and 4 * letters < len(dense)
        and 2 * sum(n for _, n in common) < signs.total()
        and sum(sign in signs for sign in "#@$&?;'\"~`%!:") >= 4  # a formula has other signs
    )


def _random_words(text: str) -> int:
    """Words in Latin letters, where their letters stand together as in no language."""
    words = _SPELLED.findall(_without_maths(text if len(text) <= _LOOKED_AT else text[:3000] + " " + text[-1500:]))
    letters = np.frombuffer(" ".join(words).lower().encode(), dtype=np.uint8)
    known = int(np.count_nonzero(_KNOWN_PAIRS[letters[:-1], letters[1:]]))
    pairs = len(letters) - 2 * len(words) + 1  # those with a space are none
    return len(words) if pairs >= _FEW_PAIRS and known < _KNOWN_SHARE * pairs else 0
