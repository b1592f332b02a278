"""WrongLanguage: is the answer in the language that the prompt expects (1 = fine, 0 = the reward is stopped)?

Three steps; the first that finds a fault decides:
1. A word of another script in the midst of a sentence: "The 模型 learns fast.", "这个 результат 很好". Policies trained
   by reinforcement learning tend to switch language like this.
2. A change to another language half-way.
3. The share of sentences in other languages than the accepted ones.
"""

from __future__ import annotations

import re

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.shared.language import (
    count_scripts,
    detect_language,
    get_script,
    has_own_script,
)
from rubrank.verifiers.shared.language_names import QUOTED, find_language_code, find_named_languages
from rubrank.verifiers.shared.language_shares import (
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
from rubrank.verifiers.shared.relation import Share
from rubrank.verifiers.shared.word_tables import compile_phrases
from rubrank.verifiers.verifier import BINARY, Answer, missing, verifier

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
    return _compare_shares(rollout.answer, main, accepted, most)


def _compare_shares(answer: str, main: str, accepted: Accepted, most: float) -> Answer:
    """Return the verdict by the share of sentences in other languages than the accepted ones."""
    languages = accepted.languages
    other_share = measure_others(answer, languages)
    reason = f"{other_share:.0%} not in {'/'.join(sorted(languages))}; mostly {main or 'unclear'}"
    # A list of places has dozens of foreign names: if the main language fits, they do not make the answer foreign.
    if other_share > most and fits(main, accepted) and not has_own_script(main):
        other_share = 0.0
    if other_share > most:
        if measure_within(answer, languages) >= _QUOTED_SHARE or quotes_language(answer, languages):
            return missing(f"partly in the language expected: {reason}")
        return False, reason
    if main not in languages and not languages & measure_languages(answer).keys():
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
    lines = [line for line in prose.splitlines() if "|" not in line and len(line) > 30]
    sentences = "\n".join(_SET_APART.sub("~", QUOTED.sub("~", line)) for line in lines)
    for script, count in counts.items():
        if script not in patterns or script in expected_scripts:
            continue
        match = patterns[script].search(sentences)
        if match is None:
            continue
        word = match[match.lastindex or 0]
        # A text with much of the other script is in two languages. One word is stray in a short text, too.
        if count == len(word) or 10 * count <= total:
            return word
    return None
