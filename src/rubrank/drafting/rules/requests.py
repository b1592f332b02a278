"""Decide whether a sentence of a prompt asks something of the response, and of the whole response or a part of it.

    "Use at least 300 words."                             a request
    "I wrote an essay of 300 words."                      narration: no request
    "Write about a boy who was told to write 300 words"   a request, but the 300 words are the story's: see `hide_story`
    "Each section has 300 words."                         a request about parts: see `is_about_a_part`

The compiler asks this before a rule may read a constraint from a sentence. In the sentences, tokens stand for what the
prompt says: ⟨q0⟩ for a quantity, ⟨s0⟩ for a quoted string, ⟨m⟩ for material that asks nothing (`sentences.py`).
`words("directive")` is a list of alternatives in data/words.tsv.
"""

from __future__ import annotations

import re

from rubrank.drafting.patterns import RESPONSE, any_of, pattern, words
from rubrank.drafting.sentences import Sentence

_LONGEST_FRAGMENT = 12
"""A sentence of up to this many words is a request even without a verb that asks: "300 words, no commas."."""
# How far from a quantity `is_about_a_part` looks for words such as "each", within the clause.
_CHARACTERS_BEFORE = 70
_CHARACTERS_AFTER = 40

# ---- is it a request? ----------------------------------------------------------------------------------------------

# "you must", "make sure"
_DIRECTIVE = pattern(rf"\b{words('directive')}\b")
_NUMBERING = r"\d+[.)]\s*|[-*•]\s*"
_LEAD_IN = rf"{words('lead-in')}\b[,:]?\s+"
_OPENING_PHRASE = rf"{words('opening word')}\b[^,.]{{0,80}},\s*"
_ADVERB = r"(?:kindly\s+|just\s+|only\s+|always\s+|briefly\s+|concisely\s+)?"
# "2. Then, in your own words, briefly explain …"
_IMPERATIVE = pattern(
    rf"^\W*(?:{_NUMBERING}|{_LEAD_IN})*(?:{_OPENING_PHRASE})?{_ADVERB}{words('imperative')}\b"
)

# "How many words does an essay have?"
_QUESTION = pattern(rf"^\W*{words('question word')}\b[^?]*\?\s*$")
# "Can you keep your answer short?"
_QUESTION_ABOUT_RESPONSE = pattern(r"\b(?:your|you write|please)\b")
# "I wrote a 500 word essay" tells something, unless a wish follows: "I have an essay that should …"
_NARRATION = pattern(
    r"^\W*(?:i|we|he|she|they|it|this|there|my|his|her|our|their)\s+",
    words("narrated verb"),
    r"\b(?!.*\b(?:please|need|want|should|must|like you|forbidden to|prohibited to|important to)\b)",
    # "My essay has 3 paragraphs"
    r"|^\W*(?:my|our|his|her|their)\s+(?:[\w'-]+\s+){1,3}?(?:has|have|had|contains|contained|is|was)\b",
    r"(?!.*\b(?:please|need|want|should|must|like you|to be|required|limited)\b)",
)
# "import os", "#include <stdio.h>", "x = 1;". Case matters: "Return the result as JSON." is no code.
_CODE_LINE = re.compile(
    r"^\s*"
    + any_of(
        r"#\s*(?:include|define)",
        r"//|/\*|import |from \w+ import|def |class |return |\w*[Ee]rror:|\$ |>>>|at \w+\.\w+|<\w+",
    )
    + r"|[{};]\s*$",
)
# "Write a function that returns True if a text has at most 8 characters": demands on a program, not on the response
_PROGRAM = pattern(
    rf"\b{words('program')}\b[^.]{{0,60}}?",
    r"\b(?:that|which|to|where|whose|for|if|matching|selecting|returning|checking)\b",
)
# "your answer", "the whole output"
_ABOUT_RESPONSE = pattern(
    r"\b(?:your|the) (?:entire |whole )?(?:response|answer|reply|output)\b|\bexplanation\b"
)
# "My teacher told me to write 500 words": somebody else's demand
_REPORTED = pattern(
    rf"^\W*(?!please\b)(?!(?:my|the|our|his|her|their) {RESPONSE}\b)",
    r"(?:my|the|a|an|our|his|her|their|some|he|she|they|someone)\b[^.,;]{0,40}?\b",
    rf"{words('reported demand')}\b",
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
    r"\b(?:about|between|where|featuring)\s+(?:(?!\b(?:with|using|in at|that has|that have)\b)[^.,;:⟨]){0,60}?",
    # The story ends where the request goes on: "… who sails in at least 300 words".
    r"\b(?:who|whom)\b(?:(?!\b(?:(?:in|with|using|of) (?:at|no|exactly|about|around)\b|in ⟨q\d+⟩ words))[^.,;:])*",
)
# "a town where it is forbidden to say ⟨s0⟩": the town's rule; "a story where …" may speak of the response
_SETTING = pattern(
    rf"\b(?:a|an|the|some)\s+(?:\w+\s)?(?!{RESPONSE}\b)\w+\s+(?:where|in which)\b",
    r"(?:(?!\b(?:your|the) (?:response|answer|story|text)\b)[^.;:])*",
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


# ---- the whole response or a part of it ----------------------------------------------------------------------------

_CLAUSE_START = re.compile(r"[.;:,]|\band\b|\bbut\b")
_CLAUSE_END = re.compile(r"[.;,:]")
# "each section has …", "all the sentences have …"
_EACH_PART_BEFORE = pattern(
    r"\b(?:each|every|per|both|all (?:the )?(?:sentences|paragraphs|lines|items|sections|answers|responses))\b"
)
# "3 paragraphs, each separated by ***" speaks of the whole response.
_EACH_PART_AFTER = pattern(
    r"\s*(?:each\b(?! separated| of which is separated)|apiece|per\b|in each|for each|every\b)"
)
# "the first sentence", "the last paragraph"
_ONE_PART = pattern(
    r"\b(?:first|second|third|last|final|opening|closing|introductory|concluding)\s+",
    r"(?:sentence|paragraph|section|part|line|half)\b",
)
# "an introduction of 50 words", "the title must have 5 words"
_NAMED_PART = pattern(
    rf"\b{words('named part')}\s+",
    r"(?:of|with|that|should|must|has|have|containing|contains?|is|are|be)\b[^,]{0,30}$",
)
# "For each tier, keep to a paragraph not exceeding 200 words", "no paragraph exceeding 100 words"
_PARTS_EARLIER = pattern(
    r"\bfor (?:each|every)\b|\b(?:each|every)\b[^.;]{0,80}\b(?:must|should|is|are|follows?|has|consists?)\b",
    r"|\bno (?:paragraph|sentence|section|line|step|item)\b",
)


def is_about_a_part(text: str, start: int, end: int) -> bool:
    """Is a quantity about parts of the response, as in "each section has 50 words"?

    Looks at the words of its clause, and at all text before it for a "for each …" that still applies.

    start, end: where the quantity is in the text.
    """
    before = _CLAUSE_START.split(text[:start])[-1][-_CHARACTERS_BEFORE:]
    after = _CLAUSE_END.split(text[end:])[0][:_CHARACTERS_AFTER]
    return bool(
        _EACH_PART_BEFORE.search(before)
        or _EACH_PART_AFTER.match(after)
        or _PARTS_EARLIER.search(text[:start])
        or _ONE_PART.search(before)
        or _NAMED_PART.search(before)
    )
