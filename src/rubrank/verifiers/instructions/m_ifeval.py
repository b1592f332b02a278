"""M-IFEval: the instructions that only Spanish, French or Japanese has.

Spanish: tildes, ü, ñ, ¿…? and ¡…!. French: accents, œ and ç, tutoiement, numbers in words. Japanese: scripts, readings,
sentence endings, lists, length in letters.
"""

from __future__ import annotations

import re
import unicodedata
from functools import partial
from itertools import pairwise

from rubrank._plain import word_list
from rubrank.rollouts.rollout import Rollout
from rubrank.texts.text import Text
from rubrank.verifiers.shared.instruction import (
    AnyRelation,
    Count,
    compare_count,
    forbid_marks,
    instruction,
    remove_accents,
    require_none,
)
from rubrank.verifiers.shared.public_tools import has_janome, split_japanese_tokens
from rubrank.verifiers.verifier import Answer, Compat

# ---- Spanish -----------------------------------------------------------------------------------------------------

spanish = partial(instruction, family="m_ifeval", languages=("es",))
french = partial(instruction, family="m_ifeval", languages=("fr",))
japanese = partial(instruction, family="m_ifeval", languages=("ja",))

_WORD = re.compile(r"\w+")
_LETTERS = r"[\w\u0300-\u036f]+"  # with combining accents
_HYPHENED_WORD = re.compile(rf"{_LETTERS}(?:[-‐‑'’]{_LETTERS})*")  # "franco-español" is one word


def _count_words_with(text: Text, letters: str, compat: Compat) -> int:
    """Count the words that hold one of the letters; a hyphen divides words only upstream."""
    if compat == "upstream":
        words: list[str] = _WORD.findall(text.raw)
    else:
        words = [unicodedata.normalize("NFC", word) for word in _HYPHENED_WORD.findall(text.raw)]
    return sum(not set(letters).isdisjoint(word) for word in words)


@spanish("es:special_character:tildes")
def tildes(
    text: Text, *, num_words: Count, relation: AnyRelation = "at least", compat: Compat = "fixed"
) -> Answer:
    """At least / at most … `num_words` words with an acute accent (á é í ó ú).

    Passes: "Él está aquí" for at least 3.
    Fails: "año, pingüino" for at least 1 (ñ and ü are no tildes).
    Not covered: whether the accents are right.
    upstream: a hyphen divides words, and accents must be single characters.
    """
    count = _count_words_with(text, "áéíóúÁÉÍÓÚ", compat)
    return compare_count(count, "word with tilde", relation, num_words)


@spanish("es:special_character:enie")
def enie(text: Text, *, let_frequency: Count, compat: Compat = "fixed") -> Answer:
    """Exactly `let_frequency` words with ñ.

    Passes: "El niño sueña" for 2.
    Fails: "año año año" for 2 (each counts).
    Not covered: whether they are Spanish.
    upstream: a hyphen divides words.
    """
    count = _count_words_with(text, "ñÑ", compat)
    return compare_count(count, "word with ñ", "exactly", let_frequency)


@spanish("es:special_character:dieresis")
def dieresis(text: Text, *, let_frequency: Count, compat: Compat = "fixed") -> Answer:
    """Exactly `let_frequency` words with ü.

    Passes: "El pingüino bilingüe" for 2.
    Fails: "guerra" for 1.
    Not covered: ü in foreign names counts too.
    upstream: a hyphen divides words.
    """
    count = _count_words_with(text, "üÜ", compat)
    return compare_count(count, "word with ü", "exactly", let_frequency)


@spanish("es:punctuation:question_marks")
def question_marks(text: Text, *, compat: Compat = "fixed") -> Answer:
    """A question between ¿ and ?.

    Passes: "¿Qué tal?"
    Fails: "Qué tal?", "¿?", "¿…?" (no letter inside).
    Not covered: whether it asks anything.
    upstream: anything but white space between the marks.
    """
    return _check_enclosed(text.raw, "¿", "?", compat)


@spanish("es:punctuation:exclamation_marks")
def exclamation_marks(text: Text, *, compat: Compat = "fixed") -> Answer:
    """An exclamation between ¡ and !.

    Passes: "¡Qué bien!"
    Fails: "Qué bien!", "¡!", "¡…!" (no letter inside).
    Not covered: its tone.
    upstream: anything but white space between the marks.
    """
    return _check_enclosed(text.raw, "¡", "!", compat)


def _check_enclosed(text: str, first: str, last: str, compat: Compat) -> tuple[bool, str]:
    """Check that something stands between the two marks somewhere."""
    start = text.find(first)
    while start >= 0:
        end = text.find(last, start)
        if end < 0:
            break
        inside = text[start:end].strip(first + last).strip()
        if inside and (compat == "upstream" or any(map(str.isalnum, inside))):
            return True, f"{first}{inside[:60]}{last} found"
        start = text.find(first, end)
    return False, f"nothing between {first} and {last}"


# ---- French ------------------------------------------------------------------------------------------------------

_PLURALS = ("s", "es", "x")
_ACCENTED = re.compile("[àáâãäåçèéêëìíîïñòóôõöùúûüýÿÀÁÂÃÄÅÇÈÉÊËÌÍÎÏÑÒÓÔÕÖÙÚÛÜÝ]")


@french("fr:special_character:accents", version=2)
def accents(text: Text, *, word_to_accentuate: dict[str, str], compat: Compat = "fixed") -> Answer:
    """The words of the map stand in the answer with their accents ({"deja": "déjà"}), and never without.

    A plural counts as the word.
    Passes: "Il est déjà là.", "leçons" for "leçon".
    Fails: "Il est deja là.", an answer without the word.
    Not covered: all other words.
    upstream: a word may be absent.
    """
    if compat == "upstream":
        words = set(_WORD.findall(text.raw.lower()))
        forms = word_to_accentuate
    else:
        words = set(_WORD.findall(text.composed.lower()))
        forms = {}  # the right spelling of each word and its plurals, by the spelling without accents
        for end in (*_PLURALS, ""):  # the words themselves last: they win over plurals of others
            for bare, accented in word_to_accentuate.items():
                forms[bare + end] = (accented + end).lower()
    wrong: list[str] = []
    for word in sorted(words):
        bare = remove_accents(word)
        if bare and forms.get(bare, word) != word:
            wrong.append(word)
    if wrong or compat == "upstream":
        return require_none(wrong, "word with wrong accents")
    absent: list[str] = []
    for accented in word_to_accentuate.values():
        spellings = {accented.lower() + end for end in ("", *_PLURALS)}
        if spellings.isdisjoint(words):
            absent.append(accented)
    return require_none(absent, "absent word")


@french("fr:special_character:no_accents")
def no_accents(text: Text, *, compat: Compat = "fixed") -> Answer:
    """No letter with an accent, cedilla or diaeresis.

    Passes: "Il fait beau."
    Fails: "été", "garçon", also with combining accents.
    Not covered: œ is no accented letter.
    upstream: a list of letters of French and its neighbours; ő or a combining accent is not on it.
    """
    if compat == "upstream":
        accented = _ACCENTED.findall(text.raw)
    else:
        letters = [char for char in text.raw if not char.isascii() and char.isalpha()]
        # "é" is an accented letter, "я" and "œ" are not: they are not ASCII without their accents.
        accented = [
            char
            for char in letters
            if remove_accents(char) != char and remove_accents(char).isascii()
        ]
        accented += [char for char in text.raw if "\u0300" <= char <= "\u036f"]
    return require_none(accented, "accented letter")


@french("fr:special_character:ethel_or_cedilla")
def ethel_or_cedilla(text: Text, *, forbidden_char: str, compat: Compat = "fixed") -> Answer:
    """The character, œ or ç, does not occur, small or capital.

    Passes: "soeur" for œ.
    Fails: "SŒUR" for œ.
    Not covered: other characters than the one named.
    upstream: a ç written with a combining cedilla is not seen.
    """
    body = text.raw if compat == "upstream" else text.composed
    return forbid_marks(body.lower(), forbidden_char.lower(), f"“{forbidden_char}”")


# tu, te, ton, "t'aime"
_TU = re.compile(
    r"(?<!\w)(?:tu|te|toi|ton|ta|tes|tiens?|tiennes?)(?!\w)|(?<!\w)t['’]\w", re.IGNORECASE
)
_TU_UPSTREAM = re.compile(r"\b(?:tu|te|toi|ton|ta|tes|t')\b", re.IGNORECASE)
# In double quotation marks of any kind; in single ones only if it is long, since apostrophes are alike.
_QUOTATION = re.compile(r"[\"“«„「『]([^\"”»“」』\n]{2,200})[\"”»“」』]|'([^'\n]{6,200})'")
# A blank to fill in: "[Votre nom]"
_BLANK = re.compile(r"\[[^\[\]\n]{1,60}\]")
_VOUS = re.compile(r"(?<!\w)(?:vous|votre|vos|vôtres?)(?!\w)", re.IGNORECASE)


@french("fr:detectable_content:informal_address", version=2)
def informal_address(rollout: Rollout, *, compat: Compat = "fixed") -> Answer:
    """The reader is addressed as "tu" and nowhere as "vous".

    A "vous" does not count in a phrase that the prompt demands, in quotation marks, and in a blank to fill in, "[Votre
    nom]".
    Passes: "Comment vas-tu ?"
    Fails: "Comment allez-vous ?", "Tu vois ? Asseyez-vous."
    Not covered: imperatives alone ("Viens !"), and "vous" for several people, which fails.
    upstream: one form of "tu" is enough.
    """
    if compat == "upstream":
        informal = _TU_UPSTREAM.search(rollout.answer)
    else:
        body = _BLANK.sub(" ", rollout.answer)
        for phrase in find_quotations(rollout.question):
            body = re.sub(
                r"\s+".join(map(re.escape, phrase.split())), " ", body, flags=re.IGNORECASE
            )
        formal = _VOUS.search(body)
        if formal:
            return False, f"“{formal[0]}” found"
        informal = _TU.search(body)
    if not informal:
        return False, "no form of “tu”"
    return True, f"“{informal[0]}” found"


def find_quotations(prompt: str) -> list[str]:
    """Return the phrases in quotation marks: what an answer must say word for word."""
    return [(match[1] or match[2]).strip() for match in _QUOTATION.finditer(prompt)]


@japanese("ja:letters:kansuuji")
@french("fr:detectable_content:no_digits")
def no_digits(text: Text, *, compat: Compat = "fixed") -> Answer:
    """No digit: numbers are written in words, in Japanese in kanji.

    Passes: "vingt ans", "三人".
    Fails: "20 ans", "m²", "3人", "３人", "①".
    Not covered: Roman numerals; whether there is a number at all.
    upstream: raised and circled digits (², ①) are not seen.
    """
    is_digit = str.isdecimal if compat == "upstream" else str.isdigit
    return require_none(list(filter(is_digit, text.raw)), "digit")


# ---- Japanese ----------------------------------------------------------------------------------------------------

_KANJI_UPSTREAM = "\u4e00-\u9faf"
_KANJI = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003134f々〆"
# Whole runs of kanji, by `compat`. Without the look-behind a long run would be tried from each of its letters, which
# takes quadratic time.
_KANJI_RUN = {
    "upstream": f"(?<![{_KANJI_UPSTREAM}])[{_KANJI_UPSTREAM}]++",
    "fixed": f"(?<![{_KANJI}])[{_KANJI}]++",
}
# A reading in hiragana: "（かんじ）".
_READING = {"upstream": "（[ぁ-ん]+）", "fixed": "[（(][ぁ-ゖー・ 　]+[）)]"}


@japanese("ja:letters:furigana")
def furigana(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Every run of kanji is followed by its reading in brackets: 漢字（かんじ）.

    Passes: "今日（きょう）は", a text without kanji.
    Fails: "今日は", "漢字（カンジ）".
    Not covered: whether it is the right reading.
    upstream: full-width brackets only; 々 is no kanji.
    """
    runs = len(re.findall(_KANJI_RUN[compat], text.raw))
    with_reading = len(re.findall(_KANJI_RUN[compat] + _READING[compat], text.raw))
    return runs == with_reading, f"{with_reading} of {runs} runs of kanji have a reading"


@japanese("ja:letters:kanji")
def kanji(
    text: Text, *, kanji_limit: Count, relation: AnyRelation = "at least", compat: Compat = "fixed"
) -> Answer:
    """At least / less than … `kanji_limit` kanji (each occurrence counts).

    Passes: "東京都" for at least 3.
    Fails: "とうきょう" for at least 1.
    Not covered: which kanji.
    upstream: 々 and rare kanji beyond U+9FAF are not counted.
    """
    count = sum(map(len, re.findall(_KANJI_RUN[compat], text.raw)))
    return compare_count(count, "kanji", relation, kanji_limit)


@japanese("ja:letters:hiragana_only")
def hiragana_only(text: Text, *, compat: Compat = "fixed") -> Answer:
    """All letters are hiragana; digits and punctuation are free.

    Passes: "こんにちは。"
    Fails: "今日は", "カメ", "OK", "123" alone.
    Not covered: spaces between words.
    upstream: a text without letters passes; ゔ and ゝ fail.
    """
    allowed = "ぁ-んー" if compat == "upstream" else "ぁ-ゖゝゞー"
    return _check_only(text.raw, allowed, "hiragana", compat)


@japanese("ja:letters:katakana_only")
def katakana_only(text: Text, *, compat: Compat = "fixed") -> Answer:
    """All letters are katakana, full or half width; digits and punctuation are free.

    Passes: "コンニチハ！"
    Fails: "コンニチは", "OK", "123" alone.
    Not covered: spaces between words.
    upstream: a text without letters passes; ヴ and ヽ fail.
    """
    allowed = "ァ-ンー・ｦ-ﾟ" if compat == "upstream" else "ァ-ヺヽヾー・ｦ-ﾟ"
    return _check_only(text.raw, allowed, "katakana", compat)


def _check_only(text: str, allowed: str, script: str, compat: Compat) -> tuple[bool, str]:
    """Check that all letters are among the allowed ones; punctuation, digits and signs are not letters."""
    is_allowed = re.compile(f"[{allowed}]")
    letters = [char for char in set(text) if unicodedata.category(char).startswith("L")]
    wrong = sorted(char for char in letters if not is_allowed.match(char))
    if compat == "fixed" and not wrong and not is_allowed.search(text):
        return False, "no letters at all"
    return require_none(wrong, f"letter that is no {script}")


@japanese("ja:letters:no_hiragana")
def no_hiragana(text: Text, *, compat: Compat = "fixed") -> Answer:
    """No hiragana.

    Passes: "東京タワー".
    Fails: "東京の".
    Not covered: historical kana beyond the usual block.
    upstream: the marks ゝ and ゞ are not seen.
    """
    pattern = "[ぁ-ゖ]" if compat == "upstream" else "[ぁ-ゖゝ-ゟ]"
    return require_none(sorted(set(re.findall(pattern, text.raw))), "hiragana")


@japanese("ja:letters:no_katakana")
def no_katakana(text: Text, *, compat: Compat = "fixed") -> Answer:
    """No katakana, full or half width. The long-vowel mark ー alone is none.

    Passes: "東京の塔".
    Fails: "タワー", "ﾀﾜｰ".
    Not covered: symbols built of katakana (㌔).
    upstream: the marks ヽ and ヾ are not seen.
    """
    pattern = "[ァ-ヺｦ-ﾟ]" if compat == "upstream" else "[ァ-ヺヽ-ヿｦ-ﾟ]"
    return require_none(sorted(set(re.findall(pattern, text.raw))), "katakana")


@japanese("ja:punctuation:no_period")
def no_period(text: Text, *, compat: Compat = "fixed") -> Answer:
    """No Japanese full stop (。).

    Passes: "行こう！"
    Fails: "行く。", "行く｡" (half width).
    Not covered: the full stop of Latin script.
    upstream: the half-width ｡ is not seen.
    """
    marks = "。" if compat == "upstream" else "。｡"
    return forbid_marks(text.raw, marks, "full stop")


@japanese("ja:length_constraints:number_letters")
def number_letters(
    text: Text, *, num_letters: Count, relation: AnyRelation = "at least", compat: Compat = "fixed"
) -> Answer:
    """At least / less than … `num_letters` characters, without white space.

    Passes: "こんにちは" for at least 5.
    Fails: "こ ん" for at least 3.
    Not covered: characters of several code points.
    upstream: spaces and line breaks count.
    """
    count = len(text.raw) if compat == "upstream" else sum(map(len, text.raw.split()))
    return compare_count(count, "character", relation, num_letters)


_ITEM_UPSTREAM = re.compile(r"\d+\.(\s|$)")
# The number of an item: "1.", "**１．", "1)", "1、". Not the "1." of "1.5".
_ITEM = re.compile(r"[*_ 　]*\d+(?:[.．、]|[.．]?[)）])(?!\d)")


@japanese("ja:detectable_format:number_numbered_lists")
def number_numbered_lists(text: Text, *, num_items: Count, compat: Compat = "fixed") -> Answer:
    """Exactly `num_items` numbered items: lines that begin with 1. or １． or 1)

    Passes: "1. 赤\\n2. 青" for 2.
    Fails: "・赤" for 1, "1.5倍" for 1.
    Not covered: whether the numbers are in order.
    upstream: a digit, a full stop and a space.
    """
    lines = text.raw.split("\n")
    if compat == "upstream":
        items = [_ITEM_UPSTREAM.match(line.lstrip()) for line in lines]
        # The public checker needs white space behind the number. Behind "3." at the end of a line that is the line
        # break; the last line has none.
        if items[-1] and not items[-1][1]:
            items.pop()
        count = sum(item is not None for item in items)
    else:
        count = sum(_ITEM.match(line.strip()) is not None for line in lines)
    return compare_count(count, "item", "exactly", num_items)


_QUOTED = re.compile("「[^「」\n]*」|『[^『』\n]*』")
_SENTENCE_END_UPSTREAM = re.compile("[。！？]")
_SENTENCE_END = re.compile("[。｡！？!?\n]+")
_MARKUP = "*_#> 　\t\r\n・-"  # may stand around a sentence


@japanese("ja:startend:sentence_unified_end")
def sentence_unified_end(text: Text, *, ending: str, compat: Compat = "fixed") -> Answer:
    """Every sentence outside quotes ends with `ending`, such as です.

    Passes: "犬です。猫です。"
    Fails: "犬です。猫だ。"
    Not covered: whether the sentences are natural.
    upstream: sentences end at 。！？ only, so that a line break after the last one is a sentence with another
        ending.
    """
    body = _QUOTED.sub("", text.raw)
    if compat == "upstream":
        sentences = _SENTENCE_END_UPSTREAM.split(body)
    else:
        sentences = [part.strip(_MARKUP) for part in _SENTENCE_END.split(body)]
    sentences = [sentence for sentence in sentences if sentence]
    wrong = [sentence.strip()[-12:] for sentence in sentences if not sentence.endswith(ending)]
    return require_none(wrong, "sentence with another ending")


# Endings in hiragana that are nouns; whatever else ends in hiragana is taken for a verb, an adjective or a particle.
_NOUNS = word_list("こと もの ため ところ とき はず わけ まま ひと みんな これ それ すべて")


@japanese("ja:detectable_format:nominal_ending", version=2)
def nominal_ending(text: Text, *, count: Count, compat: Compat = "fixed") -> Answer:
    """At least `count` sentences outside quotes end with a noun (体言止め).

    Passes: "春の京都。" for 1.
    Fails: "京都です。" for 1. A sentence ends with a noun when its last letter is kanji, katakana, Latin or a
        digit, or when it ends with one of a few nouns in hiragana.
    Not covered: nouns in hiragana beyond those.
    upstream: a word that the public analyser calls a noun stands right before 。！？ (without janome: the rule
        above, for sentences closed by these marks).
    """
    body = _QUOTED.sub("", text.raw)
    if compat == "upstream" and has_janome():
        # Pairs of a word and its part of speech; 名詞 is a noun.
        tokens = split_japanese_tokens(body)
        nouns = sum(
            mark in "。！？" and kind == "名詞" for (_, kind), (mark, _) in pairwise(tokens)
        )
        return compare_count(nouns, "nominal ending", "at least", count)
    if compat == "upstream":
        # Without the last part, which no mark closes.
        sentences = _SENTENCE_END_UPSTREAM.split(body)[:-1]
    else:
        sentences = _SENTENCE_END.split(body)
    return compare_count(sum(map(_ends_with_noun, sentences)), "nominal ending", "at least", count)


def _ends_with_noun(sentence: str) -> bool:
    """Does the sentence end with one of `_NOUNS`, or with a letter or digit that is no hiragana?"""
    body = sentence.strip(_MARKUP)
    if not body:
        return False
    is_hiragana = "ぁ" <= body[-1] <= "ゟ"
    return body.endswith(_NOUNS) or (body[-1].isalnum() and not is_hiragana)
