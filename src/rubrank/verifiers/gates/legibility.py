"""Can the user read the answer? GarbledText and WrongLanguage (1 = fine, 0 = the reward is stopped).

GarbledText counts seven signs, from broken characters to random letters (`_count_signs`). One sign that occurs often
enough, and more often than in the prompt, is enough to fail.

WrongLanguage takes three steps; the first that finds a fault decides:
1. A word of another script inside a sentence: "The 模型 learns fast.", "这个 результат 很好". Policies trained
   by reinforcement learning tend to switch language like this.
2. A change to another language half-way.
3. The share of sentences in other languages than the accepted ones.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from functools import cache

import numpy as np

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import remove_code
from rubrank.verifiers.shared.answer_languages import (
    LEAST,
    Accepted,
    extract_prose,
    find_accepted,
    find_switch,
    fits,
    measure_languages,
    measure_others,
    measure_within,
    quotes_language,
    weigh,
)
from rubrank.verifiers.shared.instruction import Share
from rubrank.verifiers.shared.language import (
    LETTERS,
    QUOTED,
    count_scripts,
    detect_language,
    find_language_code,
    find_named_languages,
    get_script,
    has_own_script,
)
from rubrank.verifiers.shared.word_tables import compile_phrases, read_table
from rubrank.verifiers.verifier import BINARY, Answer, missing, verifier

# ---- broken characters and wrong encodings ----
# Control characters (but not tab, newline, escape), the replacement character, lone surrogates, private use.
_BROKEN_CHARACTERS = re.compile(
    "[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f-\x84\x86-\x9f\ufffd\ufdd0-\ufdef\ufffe\uffff\ud800-\udfff\ue000-\uf8ff]+"
)
_NOT_ASCII = re.compile("[^\x00-\x7f]+")
# What common mistakes of decoding leave: "锟斤拷" for replacement characters, "â€™" for ’, "Ã©" for é, "鈥檚" for ’s.
_KNOWN_MOJIBAKE = re.compile(
    "锟斤拷|烫烫烫|屯屯屯|ï¿½|â€[™œ\x9d\x9c“”˜¦]|Ã[\x80-\xbf©¨¡³±¶¼¤§]|鈥[檚檛淭渓滄]"
)
# Characters that cp1252 makes of the bytes of UTF-8 letters; those of them that also stand together in good text.
_CP1252_RUN = re.compile("[\x80-\xffŒœŠšŸŽžƒˆ˜–—‘’‚“”„†‡•…‰‹›€™]{2,}")
_ORDINARY_SIGNS = re.compile("[×±÷·°²³¹½¼¾µ¬¡¿«»§¶©®–—‘’“”…•]+")
_LATIN1_RUN = re.compile("[\xa1-\xfe]{6,}")
_HAN = re.compile("[\u4e00-\u9fff]")
_HAN_RUN = re.compile("[\u4e00-\u9fff€]{3,}")
# A Chinese character at the end of, or within, a word of Latin letters: the 茅 of "caf茅 is".
_HAN_IN_LATIN_WORD = re.compile(r"(?<=[A-Za-z])[\u4e00-\u9fff](?=[a-z]|[.,;:!?]?\s[a-z])")
# cp1252's characters by their bytes. Bytes that it does not define are kept, as careless programs do.
_CP1252 = {
    ord(bytes([b]).decode("cp1252")): b
    for b in range(0x80, 0xA0)
    if b not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)
}
# Two or more letters of one script: Chinese and Japanese, Cyrillic, Latin with accents, Greek, Arabic, Hebrew, Hangul.
# Ordinary Chinese gives rarer letters, such as "ȣǵôɡ", so these ranges are narrower than the scripts.
_LETTERS_OF_ONE_SCRIPT = [
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

# ---- how much of a text may be broken ----
_SHORT_TEXT = 200  # characters: a sentence or two
_LARGE_PART = (
    20  # signs that are more than a twentieth of the text make it unreadable, whatever their number
)

# ---- words of mixed scripts ----
_SCRIPT_RUN = re.compile(
    "|".join(f"(?P<{script}>[{letters}]+)" for script, letters in LETTERS.items())
)
# Scripts that stand together in one word.
_SCRIPTS_TOGETHER = (
    {"Han", "Kana", "Latin"},
    {"Latin", "Hangul"},
    {"Han", "Hangul"},
    {"Latin", "Thai"},
    {"Latin", "Greek"},
)
_SCRIPTS_LOOKING_ALIKE = {"Latin", "Cyrillic"}

# ---- signs, escapes and tokens ----
_STACKED_ACCENTS = re.compile("[\u0300-\u036f]{4,}")
# A formula ($…$, $$…$$, \[…\], \(…\)) or a command of LaTeX (\alpha).
_MATHS = re.compile(
    r"\$\$[^$]{1,5000}\$\$|\$[^$\n]{1,1000}\$"
    # A backslash may not begin another opening bracket: a megabyte of them would be tried from each one on.
    r"|\\\[(?:[^\\]|\\(?![\[\]])){1,5000}+\\\]|\\\((?:[^\\]|\\(?![()])){1,2000}+\\\)|\\[a-zA-Z]+"
)
# In the next two, every alternative begins with a literal character, not with a group or a class. `re` then skips to
# the places where one of these characters stands, which is five to ten times as fast.
_ESCAPES = re.compile(
    r"""\\u[0-9a-fA-F]{4}                         # \u6c34
    | \\x[89a-fA-F][0-9a-fA-F]                    # \xe6; not \x41, which is ASCII
    | &\#(?:\d{3,6}|x[0-9a-fA-F]{2,5});           # &#27700; &#x6c34;
    | %[89A-F][0-9A-F](?:%[89A-F][0-9A-F]){2,}    # %E6%B0%B4; not %20""",
    re.VERBOSE,
)
_TOKENS = re.compile(
    r"""<unk> | <pad> | \[UNK\] | \[PAD\] | \[SEP\] | \[CLS\] | \[MASK\] | <mask> | <eos> | <bos>
    | <extra_id_\d+>
    | <0x[0-9A-F]{2}>                                                # a byte: <0xE6>
    | <\|(?:end_of_text|endoftext|pad|eot_id|im_end)\|>
    | <｜[^<>｜]{1,30}｜>
    | ▁[A-Za-z]+[ ,.]{0,2}(?:[▁Ġ][A-Za-z]+[ ,.]{0,2})+               # ▁The▁cat: two or more words
    | Ġ[A-Za-z]+[ ,.]{0,2}(?:[▁Ġ][A-Za-z]+[ ,.]{0,2})+               # ĠtheĠcat
    | ĊĊ+                                                            # line breaks""",
    re.VERBOSE,
)
# The prompt is about text that looks random or escaped.
_CIPHER_ASKED = compile_phrases("cipher_asked")

# ---- random letters ----
# A word of ASCII letters; in capitals only if it is long, since abbreviations have any letters.
_SPELLED_WORD = re.compile(r"(?<![^\W_])(?:[A-Z]?[a-z]{3,}|[A-Z]{12,})(?![^\W_])")
_FEWEST_PAIRS = (
    45  # with fewer pairs of letters, about ten words, random letters cannot be told from names
)
_STRETCH_PAIRS = 150  # about 35 words, among which the unknown pairs are counted
# Characters of a long text that are looked at, because a model that breaks down does not recover
_BEGINNING_CHARACTERS = 3_000
_END_CHARACTERS = 1_500
_SPACE = ord(" ")
_KNOWN_SHARE = 0.75  # share of pairs that must occur in some language; of random pairs half do


@verifier("GarbledText", family="gate", domain=BINARY, version=5, layer="global_quality")
def garbled_text(rollout: Rollout) -> Answer:
    """The text can be read.

    Fails: broken characters (replacement, control, private use, lone surrogates) in three places, or two of a
        short text; wrongly decoded text ("â€™", "浣犲ソ", "锟斤拷"); letters as escapes (`\\u6c34`, `&#27700;`);
        tokens of a model's vocabulary (`<unk>`, `<pad>`, `</s>`); random letters; words that mix
        scripts, three or more; letters under heaps of accents.
    Passes: code, mathematics, emoji, tables, drawings of lines, every script, and what the prompt itself contains or
        speaks of (ciphers, escapes).
    Not covered: real words in senseless order.
    """
    prose = remove_code(rollout.answer)
    for sign, count in _count_signs(prose, rollout.question):
        if not count:
            continue
        in_question = dict(_count_signs(rollout.question, "")).get(sign, 0)
        if count > in_question:
            return False, f"{sign}: {count}"
    return True, "readable"


def _count_signs(text: str, question: str) -> Iterator[tuple[str, int]]:
    """Yield each sign of garbled text and how often it occurs; 0 if that is too rare to matter.

    A good answer may show a sign or two ("The character � is U+FFFD."), so most signs count from the second or third
    on, or if they are a large part of a short text. docs/gates.md has the false alarms with these limits.
    """
    not_ascii = " ".join(_NOT_ASCII.findall(text))
    broken = _BROKEN_CHARACTERS.findall(text)
    is_short = len(text) < _SHORT_TEXT
    is_large_part = _LARGE_PART * sum(map(len, broken)) > len(text)
    is_broken = len(broken) >= (2 if is_short else 3) or is_large_part
    yield "places with broken characters", len(broken) if is_broken else 0
    wrong = max(len(_KNOWN_MOJIBAKE.findall(not_ascii)), _count_wrongly_decoded(text, not_ascii))
    is_wrong = wrong >= 2 or _LARGE_PART * wrong > len(text)
    yield "wrongly decoded passages", wrong if is_wrong else 0
    stacked = len(_STACKED_ACCENTS.findall(not_ascii))
    yield "letters under heaps of accents", stacked if stacked >= 3 else 0
    mixed = _count_mixed_words(text) if not_ascii else 0
    yield "words of mixed scripts", mixed if mixed >= 3 else 0
    # A single token counts: outside code, no good answer has one unless its prompt does.
    tokens = len(_TOKENS.findall(text))
    if "<s>" not in text:
        tokens += text.count("</s>")  # with <s>, it is HTML for text that is struck out
    yield "tokens of a vocabulary", tokens
    if _CIPHER_ASKED.search(question):
        return
    escapes = len(_ESCAPES.findall(text))
    is_escaped = escapes >= 3 or 6 * escapes > len(text.split())  # one escape among five words
    yield "letters as escapes", escapes if is_escaped else 0
    yield "words of random letters", _count_random_words(text)


# ---- wrong encodings ------------------------------------------------------------------------------------------------


def _count_wrongly_decoded(text: str, not_ascii: str) -> int:
    """Count passages that are really the bytes of UTF-8 (or GBK), read as another encoding.

    Each passage is encoded again as the wrong encoding. If its bytes are text in the right one, it was decoded wrongly.
    """
    if not not_ascii:
        return 0
    count = 0
    # UTF-8 read as cp1252: "â€™" for ’. A few bytes may be lost, so 70% of them must make sense.
    for run in _CP1252_RUN.findall(not_ascii):
        if _ORDINARY_SIGNS.fullmatch(run):
            continue
        try:
            data = run.translate(_CP1252).encode("latin-1")
        except ValueError:
            continue
        letters = data.decode("utf-8", "ignore")
        if letters and 10 * len(letters.encode()) >= 7 * len(data):
            count += 1 + len(letters) // 4  # a long run is several passages
    # GBK read as Latin-1: "ÄãºÃÊÀ", many accents in a row. "áááááá" is a cry, so four must be different.
    for run in _LATIN1_RUN.findall(not_ascii):
        try:
            letters = run[: len(run) // 2 * 2].encode("latin-1").decode("gbk")
        except ValueError:
            continue
        if len(set(run)) >= 4 and 2 * len(_HAN.findall(letters)) > len(letters):
            count += 1
    # UTF-8 read as GBK: "浣犲ソ" for 你好. Three quarters of the bytes are UTF-8, in one script.
    utf8_as_gbk = 0
    for run in _HAN_RUN.findall(not_ascii):
        data = run.encode("gbk", "ignore")
        letters = data.decode("utf-8", "ignore")
        is_one_script = any(script.fullmatch(letters) for script in _LETTERS_OF_ONE_SCRIPT)
        if is_one_script and 4 * len(letters.encode()) >= 3 * len(data):
            utf8_as_gbk += len(letters)
    # A few ordinary words happen to have such bytes: a fifth of the characters must be wrong.
    if 5 * utf8_as_gbk >= len(_HAN.findall(not_ascii)):
        count += utf8_as_gbk
    # The same with a single accent: "caf茅" for "café".
    for char in _HAN_IN_LATIN_WORD.findall(text):
        with contextlib.suppress(ValueError):
            count += "À" <= char.encode("gbk").decode("utf-8") <= "ÿ"
    return count


# ---- mixed scripts and random letters ------------------------------------------------------------------------


def _count_mixed_words(text: str) -> int:
    """Count words that mix scripts which are never mixed in one word.

    One change of script is grammar: an article or ending at a foreign name (الـGoogle, Google에서, iPhone'ом). Garbled
    words change to and fro, or mix letters that look alike.
    """
    count = 0
    word_end = -1
    scripts: set[str] = set()  # of the word so far
    changes = 0
    for run in _SCRIPT_RUN.finditer(text):
        script = run.lastgroup or ""
        if run.start() == word_end:
            scripts = scripts | {script}
            changes += 1
            is_mixed = not any(scripts <= together for together in _SCRIPTS_TOGETHER)
            looks_alike = changes == 1 and scripts == _SCRIPTS_LOOKING_ALIKE
            if is_mixed and (changes == 2 or looks_alike):
                count += 1
        else:
            scripts = {script}
            changes = 0
        word_end = run.end()
    return count


def _count_random_words(text: str) -> int:
    """Return the number of words in Latin letters if their pairs of letters occur in no language, else 0.

    Random letters may follow good text, so that every stretch of `_STRETCH_PAIRS` pairs is looked at. Of a long text,
    only the beginning and the end are.
    """
    if len(text) > _BEGINNING_CHARACTERS + _END_CHARACTERS:
        text = text[:_BEGINNING_CHARACTERS] + " " + text[-_END_CHARACTERS:]
    words = _SPELLED_WORD.findall(_MATHS.sub(" ", text))
    letters = np.frombuffer(" ".join(words).lower().encode(), dtype=np.uint8)
    is_pair = (letters[:-1] != _SPACE) & (letters[1:] != _SPACE)
    is_known = _read_known_pairs()[letters[:-1], letters[1:]][is_pair]
    pairs = len(is_known)
    if pairs < _FEWEST_PAIRS:
        return 0
    size = min(pairs, _STRETCH_PAIRS)
    # Sums up to each pair: the known pairs of a stretch are the difference of two of them.
    known_before = np.concatenate(([0], np.cumsum(is_known)))
    known_in_stretch = known_before[size:] - known_before[:-size]
    return len(words) if known_in_stretch.min() < _KNOWN_SHARE * size else 0


@cache
def _read_known_pairs() -> np.ndarray:
    """Return a table of 128 × 128 bools: does this pair of ASCII codes occur as letters in a European language?"""
    table = np.zeros((128, 128), dtype=bool)
    for first, followers in read_table("letter_pairs"):
        table[ord(first), [ord(letter) for letter in followers]] = True
    return table


# ---- WrongLanguage ---------------------------------------------------------------------------------------------------

_ANY_LANGUAGE_ASKED = compile_phrases("any_language_asked")
_TRANSLATION_ASKED = compile_phrases("translation_asked")
_SHORT = 30  # with fewer letters, only the script tells the language
_QUOTED_SHARE = 0.3  # in the expected language, from which on the answer may be a translation with remarks about it


@verifier("WrongLanguage", family="gate", domain=BINARY, version=7, layer="global_quality")
def wrong_language(rollout: Rollout, *, language: str | None = None, most: Share = 0.4) -> Answer:
    """The answer is in the language expected: `language`, else what the prompt asks for, is written in, or names.

    Passes: English for "Write it in English", "译成英文", or an English prompt; answers without words ("42").
    Fails: more than `most` of the sentences are surely in another, also in a code fence; a word of another
        script in the midst of a sentence ("the 模型 learns"); a change to another language half-way. Code,
        quotations and addresses do not count.
    Missing: too little text to tell; a few words are enough where the script shows the language (Chinese, Thai …).
    Not covered: dialects; Simplified or Traditional; a condition in the prompt that decides for one of two languages
        (both are accepted).
    """
    prose = extract_prose(rollout.answer)
    if not any(map(str.isalpha, prose)):
        return True, "no words of any language"
    if language:
        code = find_language_code(language).split("-")[0]
        accepted = Accepted(frozenset({code}), whole=True, sure=True)
    else:
        open_request = _ANY_LANGUAGE_ASKED.search(rollout.question)
        # "Only Tamil, no other language" names a language; "any language other than English" leaves it open.
        if open_request is not None and (
            "other than" in open_request[0].lower() or not find_named_languages(rollout.question)
        ):
            return missing("the prompt leaves the language open")
        accepted = find_accepted(rollout)
    main = detect_language(prose)[0]
    # Four Chinese characters, or a dozen letters of another script that one language writes, are enough.
    is_shown_by_script = weigh(prose) >= LEAST and has_own_script(main)
    if not accepted.languages or (weigh(prose) < _SHORT and not is_shown_by_script):
        return missing("too little text to tell the language")
    stray_word = _find_stray_word(rollout, prose, accepted)
    if stray_word:
        return False, f"{stray_word!r} in the midst of a sentence"
    switched_to = find_switch(rollout.answer, accepted.languages)
    prompt = "\n".join(message.content for message in rollout.prompt)
    if switched_to and not _TRANSLATION_ASKED.search(prompt):
        return False, f"it changes to {switched_to} half-way, and stays there"

    # The share of sentences in other languages than the accepted ones.
    languages = accepted.languages
    other_share = measure_others(rollout.answer, languages)
    reason = f"{other_share:.0%} not in {'/'.join(sorted(languages))}; mostly {main or 'unclear'}"
    # A list of places has dozens of foreign names: if the main language fits, they do not make the answer foreign.
    if other_share > most and fits(main, accepted) and not has_own_script(main):
        other_share = 0.0
    if other_share > most:
        share_within = measure_within(rollout.answer, languages)
        if share_within >= _QUOTED_SHARE or quotes_language(rollout.answer, languages):
            return missing(f"partly in the language expected: {reason}")
        return False, reason
    if main not in languages and not languages & measure_languages(rollout.answer).keys():
        return missing(f"languages too close to tell, or too few words: {reason}")
    return True, reason


# ---- stray words ----------------------------------------------------------------------------------------------------

_LETTERS = {
    "Han": "\u3400-\u9fff\uf900-\ufaff\u3041-\u3096\u30a1-\u30fa",
    "Hangul": "\uac00-\ud7af",
    "Cyrillic": "\u0400-\u052f",
    "Arabic": "\u0620-\u06ff",
    "Hebrew": "\u05d0-\u05ea",
    "Thai": "\u0e01-\u0e7f",
    "Devanagari": "\u0900-\u097f",
}
# Words that introduce a foreign word at the end of a sentence: "The city is called 東京." is no slip.
_INTRODUCING = (
    "called named word words term terms character characters phrase as means meaning written reads say says spelled "
    "kanji symbol letter letters like is are or into from by of"
)
_NOT_INTRODUCED = "".join(rf"(?<!\b{word}[ ])" for word in _INTRODUCING.split())
# Words after a foreign word that begins a sentence and is its subject: "東京 means eastern capital."
_NOT_EXPLAINED = r"""(?![ ](?:is|are|was|were|means?|meant|stands?|refers?|translates?|comes?|can|could|may|has|had
    |and|or|literally|consists?|denotes?|describes?|would|will|sounds?|reads?)\b)"""
# Parts in which foreign words are fine: (…), （…）, […], *…*, _…_, 【…】. Quotations are found by `QUOTED`.
_SET_APART = re.compile(
    r"""\( [^()\n]{1,300} \)
    | （ [^（）\n]{1,300} ）
    | \[ [^\[\]\n]{1,300} \]
    | \* [^*\n]{1,300} \*
    | _ [^_\n]{1,300} _
    | 【 [^】\n]{1,100} 】""",
    re.VERBOSE,
)


def _compile_stray_words(small: str, capital: str, own_script: str) -> dict[str, re.Pattern[str]]:
    """Return patterns for stray words in a sentence of these small and capital letters, by the stray word's script."""
    patterns = {}
    for script, letters in _LETTERS.items():
        if script == own_script:
            continue
        word = f"[{letters}]{{2,}}"
        patterns[script] = re.compile(
            rf"""
            (?<=[{small}][ ,]) {word} (?=[ ,]?[{small}](?:[{small}]|[ ]))           # "the 模型 learns"
            | (?<=[{small}]) {word} (?=[{small}])                                   # "the模型learns"
            | (?<=[{small}],[ ]) {word} (?=[ ][{small}]{{2}})                       # "so, 模型 learns"
            | (?<=[{small}][.!?][ ]) {word} {_NOT_EXPLAINED} (?=[ ][{small}]{{2}})  # "It ends. 模型 learns"
            | (?<=[{small}][ ]) {_NOT_INTRODUCED} {word}
              (?= [ ][{capital}][{small}] | [,.;!?](?:\s|$) )                       # "we train the 模型."
            """,
            re.VERBOSE,
        )
    return patterns


_SHORT_LINE = 30  # characters; a shorter line is a heading or an entry of a list
_STRAY_SHARE = 0.1  # of the letters: with more of another script, the text is in two languages
_STRAY_IN_LATIN = _compile_stray_words("a-zà-ÿ", "A-ZÀ-Þ", "Latin")
_STRAY_IN_CYRILLIC = _compile_stray_words("а-яёіїєґ", "А-ЯЁІЇЄҐ", "Cyrillic")
_WIDE = "\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff"
# "这个 результат 很好": group 1 is the stray word, between two characters or at the end of a sentence.
_STRAY_IN_CHINESE_OR_JAPANESE = {
    script: re.compile(
        rf"(?<=[{_WIDE}])[ ，、]?([{letters}]{{2,}})(?=[ ，、,。；]?[{_WIDE}]|[。；]|,)"
    )
    for script, letters in _LETTERS.items()
    if script != "Han"
}


def _find_stray_word(rollout: Rollout, prose: str, accepted: Accepted) -> str | None:
    """Return the first word of another script inside a sentence; None if there is none.

    A foreign word is fine if it is quoted, in brackets, after a colon or dash, in italics, in a table, a list entry of
    its own, or of a script that the prompt uses or names.
    """
    if prose.isascii():
        return None
    counts = count_scripts(prose)
    # A Chinese character says about as much as three letters.
    total = sum(count * (3 if script in ("Han", "Kana") else 1) for script, count in counts.items())
    prompt = "\n".join(message.content for message in rollout.prompt)[:100_000]
    expected_scripts = {get_script(code) for code in accepted.languages} | set(
        count_scripts(prompt)
    )
    if expected_scripts & {"Han", "Kana"}:
        expected_scripts |= {"Han", "Kana"}
    if counts.get("Latin", 0) > total / 2:
        patterns = _STRAY_IN_LATIN
    elif counts.get("Cyrillic", 0) > total / 2:
        patterns = _STRAY_IN_CYRILLIC
    else:
        patterns = _STRAY_IN_CHINESE_OR_JAPANESE

    # Only sentences: no short lines, no tables, and "~" for quotations, brackets and emphasis.
    lines = [line for line in prose.splitlines() if "|" not in line and len(line) > _SHORT_LINE]
    sentences = "\n".join(_SET_APART.sub("~", QUOTED.sub("~", line)) for line in lines)
    for script, count in counts.items():
        if script not in patterns or script in expected_scripts:
            continue
        match = patterns[script].search(sentences)
        if match is None:
            continue
        word = match[match.lastindex or 0]
        # A single word is stray in a short text, too, of which it is a larger share.
        if count == len(word) or count <= _STRAY_SHARE * total:
            return word
    return None
