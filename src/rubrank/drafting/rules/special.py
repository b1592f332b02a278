"""Unusual constraints for which the library has a verifier: wordplay, ratios, positions of words (as in IFBench).

data/special.tsv has a pattern for each verifier; the groups of the pattern are the verifier's parameters.

    >>> from rubrank.drafting.sentences import prepare_sentences
    >>> prompt = 'Include the keyword "tide" in the 3rd sentence.'
    >>> (sentence,) = prepare_sentences(prompt)
    >>> [(constraint.verifier, dict(constraint.params)) for constraint in find_special(sentence, prompt)]
    [('sentence:keyword', {'N': 3, 'word': 'tide'})]
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rubrank.drafting.constraint import Constraint
from rubrank.drafting.patterns import pattern, read_table
from rubrank.drafting.sentences import Sentence

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
        words = {f"keyword{number}": params["keyword"] for number, params in enumerate(keywords, 1)}
        yield Constraint("count:keywords_multiple", words)
    for verifier, expression in SPECIAL_PATTERNS.items():
        match = expression.search(sentence.text)
        if match:
            params = _read_params(match, sentence)
            params |= _find_text_params(verifier, sentence, prompt_text)
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


def _find_text_params(verifier: str, sentence: Sentence, prompt_text: str) -> dict[str, object]:
    """Return parameters that are texts of the prompt: what is repeated, or what the response is compared with."""
    if verifier not in ("ratio:overlap", "repeat:repeat_change", "repeat:repeat_span"):
        return {}
    rest = prompt_text.replace("’", "'").replace(sentence.original, "").strip()
    if verifier == "ratio:overlap":
        return {"reference_text": re.sub(r"^reference text:\s*", "", rest, flags=re.IGNORECASE)}
    if verifier == "repeat:repeat_span":
        numbers = [int(number) for number in re.findall(r"\d+", sentence.original)]
        if len(numbers) >= 2:
            return {"prompt_to_repeat": rest, "n_start": numbers[0], "n_end": numbers[1]}
    return {"prompt_to_repeat": rest}
