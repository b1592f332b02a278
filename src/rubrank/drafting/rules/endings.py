"""Rules about the whole response: first and last words, quotation marks, fixed answers, language, repeated request.

The sentences have tokens: ⟨s0⟩ stands for a quoted string, ⟨q0⟩ for a quantity such as "at least 3", ⟨m⟩ for material.
In the patterns, names in braces are lists of words; {string}, {strings}, {bare words} and {quantity} also capture what
they match in the groups `string`, `strings`, `bare` and `quantity` (`rules/__init__.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rubrank.drafting.rules import Constraint
from rubrank.drafting.sentences import Sentence, pattern, read_group
from rubrank.verifiers.shared.answer_languages import find_request
from rubrank.verifiers.shared.language import NAMED, find_language_code

# ---- the last words ------------------------------------------------------------------------------------------------

_LONGEST_ENDING = 150
"""Characters of a phrase without quotation marks; a longer text is more than the phrase."""

_QUOTED_ENDING = pattern(
    # "finish your entire response with the phrase ⟨s0⟩"
    r"\b(?:end|finish|conclude|close|sign off|wrap up|terminate|finalize)(?:s|ing|es|ed)?\b(?:\s+(?:off|up))?"
    r"(?:\s+(?:your|the|this|it|an|a|my|with|entire|whole|very|{the response}|response|answer)){0,6}?\s+"
    r"(?:with|by saying|by writing|using|on)\s+(?P<kind>[^⟨.]{0,60}?):?\s*{string}"
    # "the very last sentence of your response should be ⟨s0⟩"
    r"|\b(?:very )?(?:end|last (?:sentence|line|phrase|words?)|final (?:sentence|line|words?)"
    r"|very last (?:sentence|line))\s+of\s+(?:your|the)\s+(?:\w+\s){0,3}?(?:should|must|has to|needs to)\s+"
    r"(?:read|be|say)\s*(?:exactly)?:?\s*{string}"
    # "the last line must be ⟨s0⟩"
    r"|\b(?:very )?last (?:sentence|line|phrase) (?:should|must) (?:read|be|say):?\s*{string}"
)
# Without quotation marks, only a capital letter shows where the phrase begins, so case matters outside (?i:…).
_BARE_ENDING = re.compile(
    # "end with this exact phrase: See you soon."
    r"\b(?i:end|finish|conclude|close)(?:s|ing|es)?\b(?:\s+[\w']+){0,5}?\s+with\s+(?:this|the)\s+"
    r"(?:exact\s+|following\s+)*(?:phrase|sentence|question|line|words|statement|quote)\s*(?:exactly)?(?:of)?:?\s+"
    r"(?P<phrase>[A-Z][^\n⟨]{3,150})"
    # "the very end of your response should read exactly like: See you soon."
    r"|\b(?i:(?:very )?end of your (?:entire )?\w+ (?:should|must) (?:read|be|say)(?: exactly)?(?: like)?):\s*"
    r"(?P<phrase_2>[^\n⟨]{3,150})"
)
# "end with: See you soon.", or the phrase on the next line
_ENDING_AFTER_COLON = re.compile(
    r"\b(?i:end|finish|conclude)(?:s|ing|es)?\b(?:\s+\w+){0,5}?\s+with:?\s*"
    r"(?:(?:the|this) (?:exact )?(?:phrase|sentence|question))?:\s*(?P<phrase>[A-Z][^\n⟨]{1,150})?$"
)
# "each chapter ends with …", "a URL that ends with …"
_ENDING_OF_A_PART = pattern(
    r"\b(?:each|every|verse|chorus|stanza|chapter|slide|string|url|file|email address|regular expression)s?\b"
)
# "with the word ⟨s0⟩", "with a postscript ⟨s0⟩", "with a phrase like ⟨s0⟩". Whole words: "elegant", "likely" and "tips"
# say nothing. "e.g." is "eg" in a prepared sentence.
_NOT_A_PHRASE = pattern(r"postscript|\b(?:word|letter|title|emoji|p\.?s|like|such as|eg)\b")
_LAST_WORD = re.compile(r"\bword\b")
# A string "P.S." or "P.P.S." belongs to the rule about postscripts (`structure.py`).
_POSTSCRIPT = re.compile(r"P\.?\s?(P\.?)?\s?S")


def find_ending(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """Find the exact phrase or the word with which the response ends.

    The phrase is quoted, or bare after words that announce it, or after a colon, where it may be the next sentence.

    End your response with the phrase "See you soon."
        → startend:end_checker {"end_phrase": "See you soon."}
    End your response with the word "tide".
        → last_word:last_word_answer {"last_word": "tide"}
    Finish your story with this exact phrase: And so it goes.
        → startend:end_checker {"end_phrase": "And so it goes."}
    """
    text = sentence.text
    if _ENDING_OF_A_PART.search(text):
        return
    quoted = _QUOTED_ENDING.search(text)
    if quoted:
        string = sentence.get_string(quoted)
        kind = quoted["kind"] or ""
        if _NOT_A_PHRASE.search(kind):
            if _LAST_WORD.search(kind):
                yield Constraint("last_word:last_word_answer", {"last_word": string})
            return
        if len(string) > 1 and not _POSTSCRIPT.match(string):
            yield Constraint("startend:end_checker", {"end_phrase": string})
        return
    bare = _BARE_ENDING.search(text)
    if bare:
        phrase = read_group(bare, "phrase").strip()
        yield Constraint("startend:end_checker", {"end_phrase": phrase})
        return
    after_colon = _ENDING_AFTER_COLON.search(text)
    if after_colon:
        phrase = read_group(after_colon, "phrase").strip()
        next_position = prompt.index(sentence) + 1
        if not phrase and next_position < len(prompt):
            phrase = prompt[next_position].original.strip()
        if 1 < len(phrase) <= _LONGEST_ENDING:
            yield Constraint("startend:end_checker", {"end_phrase": phrase})


# ---- the first words -----------------------------------------------------------------------------------------------

_BEGINNING = pattern(
    # "start your answer with the word ⟨s0⟩"
    r"\b(?:start|begin|open|starting|beginning)\b(?:\s+off)?"
    r"(?:\s+(?:your|the|this|it|my|entire|whole|{the response})){0,4}?\s+(?:with|by saying|by writing)\s+"
    r"(?P<kind>[^⟨.,]{0,40}?):?\s*{string}"
    # "the first word should be ⟨s0⟩", "whose first word is ⟨s0⟩"
    r"|\b(?:the|whose|its|your)\s+(?:very\s+)?first\s+words?(?:\s+of\s+(?:your|the)\s+(?:entire\s+|whole\s+)?\w+)?"
    r"\s+(?:(?:should|must|has to|needs to|have to)\s+be|is|are)\s*:?\s*{string}"
)
# "each paragraph", "every line", "the title"
_BEGINNING_OF_A_PART = pattern(r"\b{beginning of a part}\b")
# "do not", "never" directly before "start with", or with one word between
_DENIED_BEFORE = pattern(r"(?:\bnot|n't|\bnever|\bavoid)\s+(?:\w+\s+)?$")


def find_beginning(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """Find the word or the words with which the response starts.

    Start your answer with the word "Deep".
        → first_word:first_word_answer {"first_word": "Deep"}
    Start each paragraph with the word "Deep".
        → nothing
    """
    text = sentence.text
    match = _BEGINNING.search(text)
    if not match:
        return
    string = sentence.get_string(match)
    # "In each section, begin with ⟨s0⟩", "begin with ⟨s0⟩ in every line": words of about one clause on both sides.
    before = text[max(0, match.start() - 40) : match.start()]
    after = text[match.end() : match.end() + 25]
    is_about_a_part = _BEGINNING_OF_A_PART.search(f"{before} {match[0]} {after}")
    is_denied = _DENIED_BEFORE.search(before)
    is_word = len(string) > 1 and re.search(r"\w", string) and not _POSTSCRIPT.match(string)
    if is_denied or not is_word or is_about_a_part:
        return
    if len(string.split()) == 1:
        yield Constraint("first_word:first_word_answer", {"first_word": string.strip(".,!:;")})
    else:
        params = {"pattern": rf"^\s*[\"“*_]*(?i:{re.escape(string)})"}
        yield Constraint("Regex", params)


# ---- quotation marks and fixed answers -----------------------------------------------------------------------------

# "double quotation marks", "in quotes"
_QUOTATION_MARKS = pattern(
    r"\b(?:double )?(?:quotation|quote)s? ?marks?\b|\bdouble[- ]quot(?:es|ations?)\b|\bin quotes\b"
    r"|\bdouble quotations marks\b"
)
# "wrap your entire response in", "put this"
_AROUND_RESPONSE = pattern(
    r"\b(?:wrap|enclose|put|surround|place|inside|within|around|with|in|be|wrapped|enclosed)\b"
    r"[^.]{0,60}\b{the response}\b"
    r"|\b{the response}\b[^.]{0,60}"
    r"\b(?:wrap|wrapped|enclosed|surrounded|inside|within|in|with|around)\b"
    r"|\beverything\b|\bwrap (?:it|this|that)\b|\bput (?:it|this)\b"
)
# "quotation marks around every title", "around the dialogue"
_QUOTED_PART = pattern(r"\b(?:each|every|single field|title|keyword|dialogue|speak|speech)\b")


def find_quotation(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """Find that the whole response must be in double quotation marks.

    Put double quotation marks around your whole answer.
        → startend:quotation {}
    Put quotation marks around every title.
        → nothing
    """
    text = sentence.text
    if (
        _QUOTATION_MARKS.search(text)
        and _AROUND_RESPONSE.search(text)
        and not _QUOTED_PART.search(text)
    ):
        yield Constraint("startend:quotation", {})


_IFEVAL_ANSWERS = ("my answer is yes.", "my answer is no.", "my answer is maybe.")
# "with one of the following options", "choose from", "reply only with"
_ONE_OF = pattern(
    r"(?:\bone|⟨q\d+⟩) of (?:the |these )?(?:following|\w+ )?(?:options|phrases|answers|words|choices|following)"
    r"|\bchoose (?:from|one)|\b(?:answer|reply|respond) (?:only with|with (?:only|either|just))\b"
)
_ANSWER = pattern(r"\b(?:answer|respond|reply|response)\b")
_CONTAIN = pattern(r"\b(?:contain|include|end with)\b")


def find_fixed_answers(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """Find that the response must be one of a few fixed answers, or contain one.

    IFEval's three answers ("My answer is yes." and so on) have a verifier of their own.

    Choose from "yes" and "no" as your answer.
        → ConstrainedResponse {"options": ["yes", "no"], "whole": True}
    """
    prompt_text = " ".join(line.original for line in prompt).lower()
    offers_ifeval_answers = all(answer in prompt_text for answer in _IFEVAL_ANSWERS)
    if offers_ifeval_answers and _IFEVAL_ANSWERS[0] in sentence.original.lower():
        yield Constraint("detectable_format:constrained_response", {})
        return
    options = sentence.find_strings(sentence.text)
    if len(options) >= 2 and _ONE_OF.search(sentence.text) and _ANSWER.search(sentence.text):
        is_whole_response = not _CONTAIN.search(sentence.text)
        params = {"options": options, "whole": is_whole_response}
        yield Constraint("ConstrainedResponse", params)


# ---- language ------------------------------------------------------------------------------------------------------

# A translation is the task itself, and the answer may say more than the translation.
_OTHER_USE_OF_LANGUAGE = pattern(
    r"\btranslat|翻译|译[成为]|官方语言|母语|\blabel|\b(?:song|movie|film|book) in\b|\b(?:every|each) \w+ word\b"
)
_ENGLISH = pattern(r"\benglish\b")
# "only in English", "English only", "English, and no other language"
_ONLY_ENGLISH = pattern(
    r"\b(?:only|entirely|exclusively)\b[^.]{0,15}\benglish\b|\benglish (?:only|language only)"
    r"|\benglish\b[^.]{0,30}no other language"
)
_ONLY_LANGUAGE = pattern(
    (
        # "entirely in Korean"
        r"\b(?:only|entirely|exclusively|completely|purely)\s+(?:(?:in|use|using|with|the|by)\s+)*LANGUAGE"
        # "use the Korean language"
        r"|\b(?:use|using|in)\s+(?:only\s+)?(?:the\s+)?LANGUAGE\s+(?:language|only)"
        # "in Korean, and no other language"
        r"|\b(?:in|the)\s+LANGUAGE\s*(?:language)?,?[^.]{0,40}\bno other languages?\b"
        r"|LANGUAGE[^.]{0,25}\bno other language"
    ).replace("LANGUAGE", f"(?P<language>{NAMED.pattern})")
)


def find_language(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """Find the language of the response.

    Your entire answer should be in Korean, no other language.
        → language:response_language {"language": "ko"}
    Translate the sentence to Korean.
        → nothing
    """
    original = sentence.original
    if _OTHER_USE_OF_LANGUAGE.search(original):
        return
    # English goes without saying in an English prompt, unless it must be the only language.
    if _ENGLISH.search(original) and not _ONLY_ENGLISH.search(original):
        return
    languages = find_request(original).asked
    if not languages:
        only_language = _ONLY_LANGUAGE.search(original)
        if not only_language:
            return
        languages = frozenset({find_language_code(read_group(only_language, "language").lower())})
    if len(languages) == 1:
        yield Constraint("language:response_language", {"language": next(iter(languages))})


# ---- the repeated request ------------------------------------------------------------------------------------------

# "repeat the request above", "repeat ⟨s0⟩", "repeat it word for word"
_REPEAT = pattern(
    r"\b(?:repeat(?:ing)?|copy|restate|reproduce|say)\b[^.]{0,50}\b{repeated}s?\b"
    r"|\brepeat ⟨s\d+⟩|\brepeat (?:it|this|what)\b[^.]{0,40}(?:exactly|word for word|verbatim|without)"
)
# "first", "word for word", "without any change"
_REPEAT_CUE = pattern(
    r"\b(?:first|before|word for word|without (?:any )?change|verbatim|exactly|beginning|then|prior|as it is)\b"
)
_DO_NOT_REPEAT = pattern(r"\b(?:do not|don't|never) repeat")
# "Do not say anything before repeating the request.": more about how to repeat, not what is repeated
_ABOUT_REPEATING = pattern(
    r"\brepeat(?:ing)?\b|\b(?:do not|don't|never) (?:say|add|output|write|change|alter|omit)\b[^.]{0,40}"
    r"\b(?:it|before|first|request|words?|anything|characters?)\b"
)


def find_repeated_prompt(prompt_text: str, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """Find a request that must be repeated before the answer: what comes before that sentence, or else what follows it.

    Write a poem about tides. First repeat the request word for word without change, then give your answer.
        → combination:repeat_prompt {"prompt_to_repeat": "Write a poem about tides."}
    First repeat the request below word for word. Do not say anything before repeating it. Write a poem about tides.
        → combination:repeat_prompt {"prompt_to_repeat": "Write a poem about tides."}
    """
    # The sentences have straight apostrophes, see sentences.py.
    text_of_prompt = prompt_text.replace("’", "'").replace("‘", "'")
    for position, sentence in enumerate(prompt):
        text = sentence.text
        asks_to_repeat = _REPEAT.search(text) and _REPEAT_CUE.search(text)
        if not asks_to_repeat or _DO_NOT_REPEAT.search(text):
            continue
        before = [line for line in prompt[:position] if not _ABOUT_REPEATING.search(line.text)]
        after = [line for line in prompt[position + 1 :] if not _ABOUT_REPEATING.search(line.text)]
        # Only the first 40 or 20 characters of a sentence are looked up: spellings may have been simplified further on
        # ("eg" for "e.g.").
        repeated = ""
        if before:
            repeated = prompt_text[: max(0, text_of_prompt.find(sentence.original[:40]))].strip()
        elif after:
            start = text_of_prompt.find(after[0].original[:20])
            repeated = prompt_text[start:].strip() if start > 0 else ""
        if repeated:
            params = {"prompt_to_repeat": repeated}
            yield Constraint("combination:repeat_prompt", params, sentence.original)
        return
