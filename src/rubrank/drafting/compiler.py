"""Compile the explicit constraints of a prompt to criteria of the library, by patterns and without a model.

>>> for constraint in compile_prompt("Write a poem of at least 20 words. Do not use any commas."):
...     print(constraint.verifier, dict(constraint.params))
length_constraints:number_words {'relation': 'at least', 'num_words': 20}
punctuation:no_comma {}

Before a rule may read a constraint from a sentence, the sentence must ask something of the response:

    "Use at least 300 words."                             a request
    "I wrote an essay of 300 words."                      narration: no request
    "Write about a boy who was told to write 300 words"   a request, but the 300 words are the story's: see `hide_story`

Unusual constraints for which the library has a verifier (wordplay, ratios, positions of words, as in IFBench) have no
rule of their own: data/special.tsv has a pattern for each verifier, whose groups are the verifier's parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from rubrank.drafting.rules import Constraint, Rule, endings, keywords, structure
from rubrank.drafting.rules.chinese import compile_chinese
from rubrank.drafting.sentences import Sentence, pattern, prepare_sentences, read_table

RULES: tuple[Rule, ...] = (
    structure.find_lengths,
    structure.find_divided_paragraphs,
    structure.find_first_word_of_paragraph,
    structure.find_sections,
    structure.find_two_responses,
    keywords.find_keywords,
    keywords.find_letter_counts,
    keywords.find_no_comma,
    keywords.find_letter_case,
    structure.find_bullets,
    structure.find_highlights,
    structure.find_title,
    structure.find_json,
    structure.find_table,
    structure.find_numbered_list,
    structure.find_placeholders,
    structure.find_postscript,
    endings.find_beginning,
    endings.find_ending,
    endings.find_quotation,
    endings.find_fixed_answers,
    endings.find_language,
)
_HAN = re.compile(r"[一-鿿]")
# A prompt with a larger share of Han characters counts as Chinese; an English one may quote a few.
_CHINESE_SHARE = 0.2


def compile_prompt(prompt: str) -> list[Constraint]:
    """Return the constraints that a prompt states, each once.

    Those of special rules come first, then those of `RULES` in the order of the sentences, then a request that must be
    repeated, then those that the Chinese rules find.
    """
    constraints: list[Constraint] = []
    ordinary = []  # sentences without a special constraint
    for sentence in prepare_sentences(prompt):
        special = list(find_special(sentence, prompt))
        constraints += [replace(constraint, evidence=sentence.original) for constraint in special]
        # "Include keyword x in the 3rd sentence" says more than "include keyword x".
        if not special:
            ordinary.append(sentence)
    for sentence in filter(is_request, ordinary):
        # "Write about a boy who never used commas" must not forbid commas. The rules look up their sentence in the
        # prompt, so it is replaced there too.
        shortened = replace(sentence, text=hide_story(sentence.text))
        sentences = [shortened if item is sentence else item for item in ordinary]
        for rule in RULES:
            for constraint in rule(shortened, sentences):
                evidence = constraint.evidence or sentence.original
                constraints.append(replace(constraint, evidence=evidence))
    # What is repeated is a part of the prompt as it was written, so this rule needs the prompt's text.
    constraints += endings.find_repeated_prompt(prompt, ordinary)
    if len(_HAN.findall(prompt)) > _CHINESE_SHARE * len(prompt):
        constraints += compile_chinese(prompt)
    unique: dict[tuple[str, str], Constraint] = {}
    for constraint in constraints:
        key = (constraint.verifier, repr(sorted(constraint.params.items())))
        unique.setdefault(key, constraint)
    return list(unique.values())


# ---- is it a request? ----------------------------------------------------------------------------------------------

_LONGEST_FRAGMENT = 12
"""A sentence of up to this many words is a request even without a verb that asks: "300 words, no commas."."""
# "you must", "make sure"
_DIRECTIVE = pattern(r"\b{directive}\b")
# "2. Then, in your own words, briefly explain …"
_IMPERATIVE = pattern(
    # "2. ", "then, "
    r"^\W*(?:\d+[.)]\s*|[-*•]\s*|{lead-in}\b[,:]?\s+)*"
    # "in your own words, "
    r"(?:{opening word}\b[^,.]{0,80},\s*)?"
    r"(?:kindly\s+|just\s+|only\s+|always\s+|briefly\s+|concisely\s+)?{imperative}\b"
)

# "How many words does an essay have?"
_QUESTION = pattern(r"^\W*{question word}\b[^?]*\?\s*$")
# "Can you keep your answer short?"
_QUESTION_ABOUT_RESPONSE = pattern(r"\b(?:your|you write|please)\b")
# "I wrote a 500 word essay" tells something, unless a wish follows: "I have an essay that should …"
_NARRATION = pattern(
    r"^\W*(?:i|we|he|she|they|it|this|there|my|his|her|our|their)\s+"
    r"{narrated verb}"
    r"\b(?!.*\b(?:please|need|want|should|must|like you|forbidden to|prohibited to|important to)\b)"
    # "My essay has 3 paragraphs"
    r"|^\W*(?:my|our|his|her|their)\s+(?:[\w'-]+\s+){1,3}?(?:has|have|had|contains|contained|is|was)\b"
    r"(?!.*\b(?:please|need|want|should|must|like you|to be|required|limited)\b)"
)
# "import os", "#include <stdio.h>", "x = 1;". Case matters: "Return the result as JSON." is no code.
_CODE_LINE = re.compile(
    r"^\s*(?:#\s*(?:include|define)|//|/\*|import |from \w+ import|def |class |return |\w*[Ee]rror:"
    r"|\$ |>>>|at \w+\.\w+|<\w+)|[{};]\s*$"
)
# "Write a function that returns True if a text has at most 8 characters": demands on a program, not on the response
_PROGRAM = pattern(
    r"\b{program}\b[^.]{0,60}?"
    r"\b(?:that|which|to|where|whose|for|if|matching|selecting|returning|checking)\b"
)
# "your answer", "the whole output"
_ABOUT_RESPONSE = pattern(
    r"\b(?:your|the) (?:entire |whole )?(?:response|answer|reply|output)\b|\bexplanation\b"
)
# "My teacher told me to write 500 words": somebody else's demand
_REPORTED = pattern(
    r"^\W*(?!please\b)(?!(?:my|the|our|his|her|their) {the response}\b)"
    r"(?:my|the|a|an|our|his|her|their|some|he|she|they|someone)\b[^.,;]{0,40}?\b"
    r"{reported demand}\b"
)
# "Our style guide says headlines are short" is the guide's demand; "my teacher wants 500 words, help me" the user's.
_OWN_WISH = pattern(
    r"\b(?:please|like you|help me|i (?:need|want)|you (?:need|should|must)|your)\b"
)
# "If you do not know, say so in five words."; "If possible, use five words." asks for them
_CONDITION = pattern(
    r"^\W*(?:if|unless|in case|whenever)\b(?! (?:possible|you can|you could|you would|you please)\b)"
)


def is_request(sentence: Sentence) -> bool:
    """Does the sentence ask something of the response, rather than tell or ask about something?"""
    text = sentence.text
    if _CODE_LINE.search(sentence.original):
        return False
    if _CONDITION.search(text):  # it holds for some responses only
        return False
    if _NARRATION.search(text):
        return False
    if _REPORTED.search(text) and not _OWN_WISH.search(text):
        return False
    if _PROGRAM.search(text) and not _ABOUT_RESPONSE.search(text):
        return False
    if _QUESTION.search(text) and not _QUESTION_ABOUT_RESPONSE.search(text):
        return False
    if _DIRECTIVE.search(text) or _IMPERATIVE.search(text):
        return True
    return len(text.split()) <= _LONGEST_FRAGMENT


# ---- what a sentence only speaks of --------------------------------------------------------------------------------

# "a story about a boy who was told to write 100 words": what the story tells. It needs "about" or the like, and then
# "who"; between them there is no word with which a request about the response could begin.
_STORY = pattern(
    r"\b(?:about|between|where|featuring)\s+(?:(?!\b(?:with|using|in at|that has|that have)\b)[^.,;:⟨]){0,60}?"
    # The story ends where the request goes on: "… who sails in at least 300 words".
    r"\b(?:who|whom)\b(?:(?!\b(?:(?:in|with|using|of) (?:at|no|exactly|about|around)\b|in ⟨q\d+⟩ words))[^.,;:])*"
)
# "a town where it is forbidden to say ⟨s0⟩": the town's rule; "a story where …" may speak of the response
_SETTING = pattern(
    r"\b(?:a|an|the|some)\s+(?:\w+\s)?(?!{the response}\b)\w+\s+(?:where|in which)\b"
    r"(?:(?!\b(?:your|the) (?:response|answer|story|text)\b)[^.;:])*"
)
# "why all caps emails feel rude": a fact to explain; "why the sky is blue in 50 words" ends with a request
_REASON = pattern(
    r"\bwhy\s+(?:(?!\b(?:and|but|you|your|in|with|using|within|as|under|without)\b)[^.,;:⟨])*"
)


def hide_story(text: str) -> str:
    """Return the sentence with ⟨m⟩ for what it only speaks of: a story's content, a place's rules, a fact to explain.

    "Write about a boy who never used commas." → "Write about ⟨m⟩."
    """
    text = _STORY.sub("about ⟨m⟩", text)
    text = _SETTING.sub("⟨m⟩", text)
    return _REASON.sub("⟨m⟩ ", text)


# ---- unusual constraints -------------------------------------------------------------------------------------------

_PARAMETER = re.compile(r"\{(\w+):(\w+)\}")  # {N:quantity} in data/special.tsv
# What a parameter of each kind matches. The end of a group's name says how its text becomes the value.
_KINDS = {
    "quantity": r"⟨(?P<NAME_quantity>q\d+)⟩",
    "digits": r"(?P<NAME_digits>\d+)",
    "ordinal": r"(?P<NAME_digits>\d+)\s?-?(?:st|nd|rd|th)",
    "word": r"(?:⟨(?P<NAME_string>s\d+)⟩|(?P<NAME_text>[^\W\d_][\w'-]*))",
}


def _compile_special(text: str) -> re.Pattern[str]:
    """Compile a pattern of data/special.tsv."""
    return pattern(_PARAMETER.sub(lambda match: _KINDS[match[2]].replace("NAME", match[1]), text))


SPECIAL_PATTERNS = {verifier: _compile_special(text) for verifier, text in read_table("special")}

# "Include keyword ⟨s0⟩ once, keyword ⟨s1⟩ twice, …": the public verifier knows five keywords with these counts only.
_COUNTED_KEYWORD = _compile_special(r"\bkey ?word\s+{keyword:word}\s+{count:quantity}\s+times\b")
_KEYWORD_COUNTS = [1, 2, 3, 5, 7]


def find_special(sentence: Sentence, prompt_text: str) -> Iterator[Constraint]:
    """Yield the unusual constraints of one sentence."""
    keywords = [_read_params(match, sentence) for match in _COUNTED_KEYWORD.finditer(sentence.text)]
    if [params["count"] for params in keywords] == _KEYWORD_COUNTS:
        names = {f"keyword{number}": params["keyword"] for number, params in enumerate(keywords, 1)}
        yield Constraint("count:keywords_multiple", names)
    for verifier, expression in SPECIAL_PATTERNS.items():
        match = expression.search(sentence.text)
        if match:
            params = _read_params(match, sentence)
            # Some verifiers compare the response with the rest of the prompt, or want it repeated.
            rest = prompt_text.replace("’", "'").replace(sentence.original, "").strip()
            if verifier == "ratio:overlap":
                reference_text = re.sub(r"^reference text:\s*", "", rest, flags=re.IGNORECASE)
                params["reference_text"] = reference_text
            elif verifier in ("repeat:repeat_change", "repeat:repeat_span"):
                params["prompt_to_repeat"] = rest
            numbers = [int(number) for number in re.findall(r"\d+", sentence.original)]
            if verifier == "repeat:repeat_span" and len(numbers) >= 2:
                params |= {"n_start": numbers[0], "n_end": numbers[1]}
            yield Constraint(verifier, params)


def _read_params(match: re.Match[str], sentence: Sentence) -> dict[str, object]:
    """Read the parameters in the groups of a match, numbers first."""
    numbers: dict[str, object] = {}
    texts: dict[str, object] = {}
    for group, text in match.groupdict().items():
        parameter, _, kind = group.rpartition("_")
        if text is None:
            continue
        if kind == "quantity":
            numbers[parameter] = sentence.quantities[text].number
        elif kind == "digits":
            numbers[parameter] = int(text)
        elif kind == "string":
            texts[parameter] = sentence.strings[text]
        else:
            texts[parameter] = text
    return numbers | texts
