"""M-IFEval, the instructions that only Japanese has: scripts, readings, sentence endings, lists, length in letters."""

from __future__ import annotations

import re
import unicodedata
from functools import partial
from itertools import pairwise

from rubrank.texts.text import Text
from rubrank.verifiers.ifeval.common import AnyRelation, instruction, quote_some
from rubrank.verifiers.shared.public_tools import has_janome, japanese_tokens
from rubrank.verifiers.shared.relation import Count, compare_count
from rubrank.verifiers.verifier import Answer, Compat

japanese = partial(instruction, family="m_ifeval", languages=("ja",))

_KANJI_UPSTREAM = "\u4e00-\u9faf"
_KANJI = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003134f々〆"
_ONE_KANJI = {"upstream": re.compile(f"[{_KANJI_UPSTREAM}]"), "fixed": re.compile(f"[{_KANJI}]")}
# Whole runs of kanji. Without the look-behind a long run would be tried from each of its letters: quadratic time.
_RUN = {
    kind: re.compile(f"(?<![{k}])[{k}]++")
    for kind, k in (("upstream", _KANJI_UPSTREAM), ("fixed", _KANJI))
}
_READ = {
    "upstream": re.compile(f"(?<![{_KANJI_UPSTREAM}])[{_KANJI_UPSTREAM}]++（[ぁ-ん]+）"),
    "fixed": re.compile(f"(?<![{_KANJI}])[{_KANJI}]++[（(][ぁ-ゖー・ 　]+[）)]"),
}


@japanese("ja:letters:furigana")
def furigana(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Every run of kanji is followed by its reading in brackets: 漢字（かんじ）.

    Passes: "今日（きょう）は", a text without kanji.
    Fails: "今日は", "漢字（カンジ）".
    Not covered: whether it is the right reading.
    upstream: full-width brackets only; 々 is no kanji.
    """
    runs = len(_RUN[compat].findall(text.raw))
    with_reading = len(_READ[compat].findall(text.raw))
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
    count = len(_ONE_KANJI[compat].findall(text.raw))
    return compare_count(count, "kanji", relation, kanji_limit)


@japanese("ja:letters:kansuuji")
def kansuuji(text: Text, *, compat: Compat = "fixed") -> Answer:
    """No digits: numbers are in kanji.

    Passes: "三人".
    Fails: "3人", "３人", "①".
    Not covered: whether there is a number at all.
    upstream: circled and raised digits are not seen.
    """
    is_digit = str.isdecimal if compat == "upstream" else str.isdigit
    digits = list(filter(is_digit, text.raw))
    if digits:
        return False, f"digits: {quote_some(digits)}"
    return True, "no digit"


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
    if wrong:
        return False, f"letters that are no {script}: {quote_some(wrong)}"
    if compat == "fixed" and not is_allowed.search(text):
        return False, "no letters at all"
    return True, f"all letters are {script}"


@japanese("ja:letters:no_hiragana")
def no_hiragana(text: Text, *, compat: Compat = "fixed") -> Answer:
    """No hiragana.

    Passes: "東京タワー".
    Fails: "東京の".
    Not covered: historical kana beyond the usual block.
    upstream: the marks ゝ and ゞ are not seen.
    """
    pattern = "[ぁ-ゖ]" if compat == "upstream" else "[ぁ-ゖゝ-ゟ]"
    hiragana = sorted(set(re.findall(pattern, text.raw)))
    if hiragana:
        return False, f"hiragana: {quote_some(hiragana)}"
    return True, "no hiragana"


@japanese("ja:letters:no_katakana")
def no_katakana(text: Text, *, compat: Compat = "fixed") -> Answer:
    """No katakana, full or half width. The long-vowel mark ー alone is none.

    Passes: "東京の塔".
    Fails: "タワー", "ﾀﾜｰ".
    Not covered: symbols built of katakana (㌔).
    upstream: the marks ヽ and ヾ are not seen.
    """
    pattern = "[ァ-ヺｦ-ﾟ]" if compat == "upstream" else "[ァ-ヺヽ-ヿｦ-ﾟ]"
    katakana = sorted(set(re.findall(pattern, text.raw)))
    if katakana:
        return False, f"katakana: {quote_some(katakana)}"
    return True, "no katakana"


@japanese("ja:punctuation:no_period")
def no_period(text: Text, *, compat: Compat = "fixed") -> Answer:
    """No Japanese full stop (。).

    Passes: "行こう！"
    Fails: "行く。", "行く｡" (half width).
    Not covered: the full stop of Latin script.
    upstream: the half-width ｡ is not seen.
    """
    marks = "。" if compat == "upstream" else "。｡"
    return compare_count(sum(map(text.raw.count, marks)), "full stop", "exactly", 0)


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
        count = sum(
            _is_numbered_upstream(line.lstrip(), i + 1 == len(lines))
            for i, line in enumerate(lines)
        )
    else:
        count = sum(_ITEM.match(line.strip()) is not None for line in lines)
    return compare_count(count, "item", "exactly", num_items)


def _is_numbered_upstream(line: str, is_last: bool) -> bool:
    item = _ITEM_UPSTREAM.match(line)
    return item is not None and (bool(item[1]) or not is_last)


_QUOTED = re.compile("「[^「」\n]*」|『[^『』\n]*』")
_END = re.compile("[。！？]")
_END_FIXED = re.compile("[。｡！？!?\n]+")
_MARKUP = "*_#> 　\t\r\n・-"


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
        sentences = _END.split(body)
    else:
        sentences = [part.strip(_MARKUP) for part in _END_FIXED.split(body)]
    sentences = [sentence for sentence in sentences if sentence]
    wrong = [sentence.strip()[-12:] for sentence in sentences if not sentence.endswith(ending)]
    if wrong:
        return False, f"ends otherwise: {quote_some(wrong)}"
    return True, f"{len(sentences)} sentences end with {ending}"


# Endings in hiragana that are nouns; whatever else ends in hiragana is taken for a verb, an adjective or a particle.
_NOUNS = (
    "こと",
    "もの",
    "ため",
    "ところ",
    "とき",
    "はず",
    "わけ",
    "まま",
    "ひと",
    "みんな",
    "これ",
    "それ",
    "すべて",
)


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
        tokens = japanese_tokens(body)
        nouns = sum(
            mark in "。！？" and kind == "名詞" for (_, kind), (mark, _) in pairwise(tokens)
        )
        return compare_count(nouns, "nominal ending", "at least", count)
    if compat == "upstream":
        sentences = _END.split(body)[:-1]  # without the last part, which no mark closes
    else:
        sentences = _END_FIXED.split(body)
    return compare_count(sum(map(_ends_with_noun, sentences)), "nominal ending", "at least", count)


def _ends_with_noun(sentence: str) -> bool:
    body = sentence.strip(_MARKUP)
    if not body:
        return False
    is_hiragana = "ぁ" <= body[-1] <= "ゟ"
    return body.endswith(_NOUNS) or (body[-1].isalnum() and not is_hiragana)
