"""The catalogue of criteria that the library knows by the paper's names, including those that a judge decides.

    >>> KNOWN["Truncated"].layer, KNOWN["CoreIntentMatch"].how
    ('global_quality', 'judge')

The table is `catalogue.tsv`. Its column `decided_by` (here `how`) says who decides:

    rule     a verifier of that name
    judge    a judge, with a prompt of the library
    both     the verifier if the parameters or the text are sufficient; otherwise it reports "needs a judge"

The catalogue is used for listing and for checking rubrics; the verifiers themselves are in `rubrank.verifiers`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources import files
from typing import Literal, TypeAlias, cast

from rubrank._plain import shorten
from rubrank.verifiers.verifier import (
    BINARY,
    TERNARY,
    UNIT,
    VERIFIERS,
    Domain,
    Layer,
    discrete,
    is_verifier,
)

DecidedBy: TypeAlias = Literal["rule", "judge", "both"]

QUARTERS = discrete(0, 0.25, 0.5, 0.75, 1)

_MIN_SIMILARITY = 0.8  # of `get_close_matches`: a slip of a letter or two
_ONE_WORD = re.compile(r"[A-Za-z][\w:.-]*")
_COMPOUND = re.compile(r"[a-z][A-Z]|\w:\w")  # WordCount, keywords:existence
_LONGEST_NAME = 80  # characters


@dataclass(frozen=True, slots=True)
class KnownCriterion:
    """A criterion of the paper: what it checks, and who decides."""

    name: str
    family: str
    checks: str
    domain: Domain = BINARY
    how: DecidedBy = "rule"
    layer: Layer = "quality"


# The words of the column `scale`, and the families whose criteria are not in the quality layer.
_SCALES = {"binary": BINARY, "ternary": TERNARY, "quarters": QUARTERS, "unit": UNIT}
_LAYERS: dict[str, Layer] = {"penalty": "low_quality", "gate": "global_quality"}


def _read_catalogue() -> dict[str, KnownCriterion]:
    """Read catalogue.tsv, whose first line has the names of the columns."""
    text = (files("rubrank.rubrics") / "catalogue.tsv").read_text(encoding="utf-8")
    criteria = {}
    for line in text.splitlines()[1:]:
        family, name, scale, how, checks = line.split("\t")
        layer = _LAYERS.get(family, "quality")
        criteria[name] = KnownCriterion(
            name, family, checks, _SCALES[scale], cast(DecidedBy, how), layer
        )
    return criteria


KNOWN: dict[str, KnownCriterion] = _read_catalogue()
"""All criteria by name, in the paper's order."""
PROMPTED = frozenset(name for name, criterion in KNOWN.items() if criterion.how != "rule") | {
    "SummaryRecall"  # a verifier decides it, unless the rubric asks for a judge
}
"""Criteria with a prompt in `judges/prompts/`: a judge can be asked about them without a question in the rubric."""


def name_or_question(text: str, *, foreign: bool = False) -> dict[str, str]:
    """Return the criterion that a bare text stands for: one word is a name, several are a question for a judge.

    foreign: the text comes from public data, where a single word that names no criterion is a question too.
    """
    if is_a_name(text) or (not foreign and _ONE_WORD.fullmatch(text)):
        return {"name": text}
    return {"name": shorten_name(text), "question": text}


def is_a_name(text: str) -> bool:
    """Is it meant as the name of a criterion, rather than as a question?

    Names with a typing error count too: they are reported as unknown, instead of being sent to a judge as a question.
    """
    if is_verifier(text) or text in KNOWN:
        return True
    if not _ONE_WORD.fullmatch(text):
        return False
    if _COMPOUND.search(text):
        return True
    return bool(get_close_matches(text, (*VERIFIERS, *KNOWN), n=1, cutoff=_MIN_SIMILARITY))


def shorten_name(text: str) -> str:
    """Return a question, shortened to a name."""
    return shorten(" ".join(text.split()), _LONGEST_NAME) or "criterion"
