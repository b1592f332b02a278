"""Compile the explicit constraints of a prompt to criteria of the library, without a model.

>>> for constraint in compile_prompt("Write a poem of at least 20 words. Do not use any commas."):
...     print(constraint.verifier, dict(constraint.params))
length_constraints:number_words {'relation': 'at least', 'num_words': 20}
punctuation:no_comma {}
"""

from __future__ import annotations

import re

from rubrank.drafting.chinese import compile_chinese
from rubrank.drafting.constraint import Constraint
from rubrank.drafting.english import compile_english
from rubrank.drafting.sentences import prepare
from rubrank.drafting.special import find_special

_HAN = re.compile(r"[一-鿿]")


def compile_prompt(prompt: str) -> list[Constraint]:
    """The constraints that a prompt states, each once, in the order of the prompt."""
    sentences = prepare(prompt)
    constraints: list[Constraint] = []
    ordinary = []
    for sentence in sentences:
        special = list(find_special(sentence, prompt))
        constraints += special
        # "Include keyword x in the 3rd sentence" says more than "include keyword x".
        if not special:
            ordinary.append(sentence)
    constraints += compile_english(prompt, ordinary)
    if len(_HAN.findall(prompt)) > 0.2 * len(prompt):
        constraints += compile_chinese(prompt)
    unique: dict[tuple[str, str], Constraint] = {}
    for constraint in constraints:
        unique.setdefault(
            (constraint.verifier, repr(sorted(constraint.params.items()))), constraint
        )
    return list(unique.values())
