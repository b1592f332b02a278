"""WrongLanguage: is the answer in the language that the prompt expects (1 = fine, 0 = the reward is stopped)?"""

from __future__ import annotations

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.gates.stray_words import find_stray_word
from rubrank.verifiers.shared.language import detect_language, has_own_script
from rubrank.verifiers.shared.language_names import language_code, named_languages
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
_QUOTED = 0.3  # share in the expected language from which on the answer may be a translation with remarks about it


@verifier("WrongLanguage", family="gate", domain=BINARY, version=5, layer="global_quality")
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
        accepted = Accepted(
            frozenset({language_code(language).split("-")[0]}), whole=True, sure=True
        )
    elif _leaves_open(rollout.question):
        return missing("the prompt leaves the language open")
    else:
        accepted = find_accepted(rollout)
    main = detect_language(prose)[0]
    # Four Chinese characters, or a dozen letters of another script that one language writes, are enough.
    is_shown_by_script = weigh(prose) >= LEAST and has_own_script(main)
    if not accepted.languages or (weigh(prose) < _SHORT and not is_shown_by_script):
        return missing("too little text to tell the language")
    stray_word = find_stray_word(rollout, prose, accepted)
    if stray_word:
        return False, f"{stray_word!r} in the midst of a sentence"
    switched_to = find_switch(rollout.answer, accepted.languages)
    prompt = "\n".join(message.content for message in rollout.prompt)
    if switched_to and not _TRANSLATION_ASKED.search(prompt):
        return False, f"it changes to {switched_to} half-way, and stays there"
    return _compare_shares(rollout.answer, main, accepted, most)


def _compare_shares(answer: str, main: str, accepted: Accepted, most: float) -> Answer:
    """The verdict by the share of sentences in other languages than the accepted ones."""
    languages = accepted.languages
    other_share = measure_others(answer, languages)
    reason = f"{other_share:.0%} not in {'/'.join(sorted(languages))}; mostly {main or 'unclear'}"
    # A list of places has dozens of foreign names: if the main language fits, they do not make the answer foreign.
    if other_share > most and fits(main, accepted) and not has_own_script(main):
        other_share = 0.0
    if other_share > most:
        if measure_within(answer, languages) >= _QUOTED or quotes_language(answer, languages):
            return missing(f"partly in the language expected: {reason}")
        return False, reason
    if main not in languages and not languages & measure_languages(answer).keys():
        return missing(f"languages too close to tell, or too few words: {reason}")
    return True, reason


def _leaves_open(question: str) -> bool:
    """Whether the prompt asks for any other language. "Only Tamil, no other language" does not: it names one."""
    match = _ANY_LANGUAGE_ASKED.search(question)
    if match is None:
        return False
    return "other than" in match[0].lower() or not named_languages(question)
