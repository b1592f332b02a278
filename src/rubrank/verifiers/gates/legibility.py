"""GarbledText: can the text be read (1 = fine, 0 = the reward is stopped)?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache

import numpy as np

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import without_code
from rubrank.verifiers.shared.word_tables import compile_phrases, read_table
from rubrank.verifiers.verifier import BINARY, Answer, verifier

_BROKEN = re.compile(
    "[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f-\x84\x86-\x9f\ufffd\ufdd0-\ufdef\ufffe\uffff\ud800-\udfff\ue000-\uf8ff]+"
)
_NOT_ASCII = re.compile("[^\x00-\x7f]+")
_ASCII_SIGN = re.compile(r"[!-/:-@\[-`{-~]")
_KNOWN_MOJIBAKE = re.compile(
    "锟斤拷|烫烫烫|屯屯屯|ï¿½|â€[™œ\x9d\x9c“”˜¦]|Ã[\x80-\xbf©¨¡³±¶¼¤§]|鈥[檚檛淭渓滄]"
)
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
_SCRIPT_RUN = re.compile("|".join(f"(?P<{name}>[{letters}]+)" for name, letters in _SCRIPTS))
# Scripts that stand together in one word.
_TOGETHER = (
    {"Han", "Kana", "Latin"},
    {"Han", "Kana"},
    {"Latin", "Han"},
    {"Latin", "Kana"},
    {"Latin", "Hangul"},
    {"Han", "Hangul"},
    {"Latin", "Thai"},
)
_LOOK_ALIKE = {"Latin", "Cyrillic"}
_SOUP = 60  # a line with this many characters, mostly different signs, is not writing
# In the next two, every alternative begins with a literal character, not with a group or a class. `re` then skips to
# the places where one of these characters stands, which is five to ten times as fast.
_ESCAPES = re.compile(
    r"\\u[0-9a-fA-F]{4}|\\x[89a-fA-F][0-9a-fA-F]|&#(?:\d{3,6}|x[0-9a-fA-F]{2,5});"
    r"|%[89A-F][0-9A-F](?:%[89A-F][0-9A-F]){2,}"
)
_TOKENS = re.compile(
    r"<unk>|<pad>|\[UNK\]|\[PAD\]|\[SEP\]|\[CLS\]|\[MASK\]|<mask>|<eos>|<bos>|<extra_id_\d+>|<0x[0-9A-F]{2}>"
    r"|<\|(?:end_of_text|endoftext|pad|eot_id|im_end)\|>|<｜[^<>｜]{1,30}｜>"
    r"|▁[A-Za-z]+[ ,.]{0,2}(?:[▁Ġ][A-Za-z]+[ ,.]{0,2})+|Ġ[A-Za-z]+[ ,.]{0,2}(?:[▁Ġ][A-Za-z]+[ ,.]{0,2})+|ĊĊ+"
)
# The prompt is about text that looks random or escaped.
_CIPHER_ASKED = compile_phrases("cipher_asked")
_SPELLED = re.compile(r"(?<![^\W_])(?:[A-Z]?[a-z]{3,}|[A-Z]{12,})(?![^\W_])")
_FEW_PAIRS = 45  # with fewer pairs of letters, random letters cannot be told from words
_STRETCH = 150  # pairs, about 35 words, among which the unknown ones are counted
_SPACE = ord(" ")
_KNOWN_SHARE = 0.75  # share of pairs that must occur in some language; of random pairs half do
_LOOKED_AT = 4_500  # characters of the beginning and the end in which random letters are looked for


@verifier("GarbledText", family="gate", domain=BINARY, version=4, layer="global_quality")
def garbled_text(rollout: Rollout) -> Answer:
    """The text can be read.

    Fails: broken characters (replacement, control, private use, lone surrogates) in three places, or two of a
        short text; wrongly decoded text ("â€™", "浣犲ソ", "锟斤拷"); letters as escapes (`\\u6c34`, `&#27700;`);
        tokens of a model's vocabulary (`<unk>`, `<pad>`, `</s>`); random letters; long stretches of mixed
        signs without words; words that mix scripts, three or more; letters under heaps of accents.
    Passes: code, mathematics, emoji, tables, drawings of lines, every script, and what the prompt itself contains or
        speaks of (ciphers, escapes).
    Not covered: real words in senseless order.
    """
    prose = without_code(rollout.answer)
    for sign, count in _count_signs(prose, rollout.question):
        if not count:
            continue
        in_question = dict(_count_signs(rollout.question, "")).get(sign, 0)
        if count > in_question:
            return False, f"{sign}: {count}"
    return True, "readable"


def _count_signs(text: str, question: str) -> Iterator[tuple[str, int]]:
    """Each sign of garbled text and how often it occurs; 0 if that is too rare to matter."""
    not_ascii = " ".join(_NOT_ASCII.findall(text))
    broken = _BROKEN.findall(text)
    many = (
        len(broken) >= 3
        or (len(broken) >= 2 and len(text) < 200)
        or 20 * sum(map(len, broken)) > len(text)
    )
    yield "places with broken characters", len(broken) if many else 0
    wrong = max(len(_KNOWN_MOJIBAKE.findall(not_ascii)), _count_wrongly_decoded(text, not_ascii))
    yield "wrongly decoded passages", wrong if wrong >= 2 or 20 * wrong > len(text) else 0
    stacked = len(_STACKED.findall(not_ascii))
    yield "letters under heaps of accents", stacked if stacked >= 3 else 0
    mixed = _count_mixed_words(text) if _NOT_LATIN.search(not_ascii) else 0
    yield "words of mixed scripts", mixed if mixed >= 3 else 0
    yield "lines of signs without words", sum(map(_is_soup, _MATHS.sub(" ", text).splitlines()))
    tokens = len(_TOKENS.findall(text))
    if "<s>" not in text:
        tokens += text.count("</s>")
    yield "tokens of a vocabulary", tokens
    if _CIPHER_ASKED.search(question):
        return
    escapes = len(_ESCAPES.findall(text))
    many = escapes >= 3 or (escapes > 0 and 6 * escapes > len(text.split()))
    yield "letters as escapes", escapes if many else 0
    yield "words of random letters", _count_random_words(text)


def _count_wrongly_decoded(text: str, not_ascii: str) -> int:
    """Passages that are really the bytes of UTF-8 (or GBK), read as another encoding."""
    if not not_ascii:
        return 0
    utf8_as_western = sum(
        _count_utf8_in_cp1252(run)
        for run in _HIGH.findall(not_ascii)
        if not _SIGNS_ALONE.fullmatch(run)
    )
    gbk_as_latin = sum(map(_is_gbk_in_latin, _WESTERN.findall(not_ascii)))
    utf8_as_gbk = sum(map(_count_utf8_in_gbk, _HAN_RUN.findall(not_ascii)))
    if 5 * utf8_as_gbk < len(_HAN.findall(not_ascii)):
        utf8_as_gbk = 0  # a few ordinary words happen to have such bytes
    accents = sum(map(_is_accent_in_gbk, _IN_LATIN.findall(text)))
    return utf8_as_western + gbk_as_latin + utf8_as_gbk + accents


# Bytes that cp1252 leaves open are kept as they are, as careless programs do.
_CP1252 = {
    ord(bytes([b]).decode("cp1252")): b
    for b in range(0x80, 0xA0)
    if b not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)
}


def _count_utf8_in_cp1252(run: str) -> int:
    """Estimate how many passages of UTF-8 were decoded as cp1252 here; a few bytes may be lost."""
    try:
        data = run.translate(_CP1252).encode("latin-1")
    except ValueError:
        return 0
    letters = data.decode("utf-8", "ignore")
    if not letters or 10 * len(letters.encode()) < 7 * len(data):
        return 0
    return 1 + len(letters) // 4


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


def _count_utf8_in_gbk(run: str) -> int:
    """Count letters of UTF-8 that was decoded as GBK: encoded as GBK again, the bytes are UTF-8 in one script."""
    data = run.encode("gbk", "ignore")
    letters = data.decode("utf-8", "ignore")
    if 4 * len(letters.encode()) < 3 * len(data):
        return 0
    return len(letters) if any(block.fullmatch(letters) for block in _BLOCKS) else 0


def _is_accent_in_gbk(char: str) -> bool:
    """A letter with an accent, read as GBK: the 茅 of caf茅."""
    try:
        return "À" <= char.encode("gbk").decode("utf-8") <= "ÿ"
    except ValueError:
        return False


def _is_gbk_in_latin(run: str) -> bool:
    """GBK read as Latin: many accents in a row, which make Chinese characters."""
    try:
        letters = run[: len(run) // 2 * 2].encode("latin-1").decode("gbk")
    except ValueError:
        return False
    chinese = sum("\u4e00" <= char <= "\u9fff" for char in letters)
    return len(set(run)) >= 4 and 2 * chinese > len(letters)


def _count_mixed_words(text: str) -> int:
    """Count words that mix scripts which are never mixed in one word.

    One change of script is grammar: an article or ending at a foreign name (الـGoogle, Google에서, iPhone'ом). Garbled
    words change to and fro, or mix letters that look alike.
    """
    count = 0
    end = -1
    scripts: set[str] = set()
    changes = 0
    for run in _SCRIPT_RUN.finditer(text):
        script = run.lastgroup or ""
        if run.start() == end:
            scripts = scripts | {script}
            changes += 1
            is_mixed = not any(scripts <= pair for pair in _TOGETHER)
            count += is_mixed and (changes == 2 or (changes == 1 and scripts == _LOOK_ALIKE))
        else:
            scripts = {script}
            changes = 0
        end = run.end()
    return count


def _is_soup(line: str) -> bool:
    """A long line of many different ASCII signs and few letters, other than a rule, drawing, table or formula."""
    # More than half of the characters must be signs; counting them by a pattern first keeps ordinary lines fast.
    if 2 * len(_ASCII_SIGN.findall(line)) <= _SOUP:
        return False
    dense = "".join(line.split())
    if len(dense) < _SOUP or dense.count("|") >= 2:
        return False
    signs = Counter(char for char in dense if char.isascii() and not char.isalnum())
    letters = sum(map(str.isalpha, dense))
    two_commonest = sum(n for _, n in signs.most_common(2))
    return (
        len(signs) >= 8
        and 2 * signs.total() > len(dense)
        and 4 * letters < len(dense)
        and 2 * two_commonest < signs.total()
        and sum(sign in signs for sign in "#@$&?;'\"~`%!:") >= 4  # a formula has other signs
    )


@cache
def _known_pairs() -> np.ndarray:
    """Which pairs of letters occur in European languages, by their ASCII codes."""
    table = np.zeros((128, 128), dtype=bool)
    for first, followers in read_table("letter_pairs"):
        table[ord(first), [ord(letter) for letter in followers]] = True
    return table


def _count_random_words(text: str) -> int:
    """The number of words in Latin letters if their pairs of letters occur in no language, else 0.

    Random letters may follow good text, so that every stretch of `_STRETCH` pairs is looked at.
    """
    if len(text) > _LOOKED_AT:
        text = text[:3000] + " " + text[-1500:]
    words = _SPELLED.findall(_MATHS.sub(" ", text))
    letters = np.frombuffer(" ".join(words).lower().encode(), dtype=np.uint8)
    is_pair = (letters[:-1] != _SPACE) & (letters[1:] != _SPACE)
    is_known = _known_pairs()[letters[:-1], letters[1:]][is_pair]
    pairs = len(is_known)
    if pairs < _FEW_PAIRS:
        return 0
    size = min(pairs, _STRETCH)
    known_before = np.concatenate(([0], np.cumsum(is_known)))
    known_in_stretch = known_before[size:] - known_before[:-size]
    return len(words) if known_in_stretch.min() < _KNOWN_SHARE * size else 0
