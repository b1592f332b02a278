"""Items with a verdict each → a value, computed here instead of in a judge's head.

    CoreFactAccuracy       [right, right, missing]                     0.5: most are right, the first among them
    SummaryRecall          [stated, in part, absent]                   0.5: the mean
    MaterialFaithfulness   [supported, contradicted]                   0: one is enough

A reply that lists nothing, an unknown verdict, an item without a text, or another number of items than the reference
has is missing. What the items are about is the judge's word: no parser can tell whether it looked at the right ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rubrank.judges.prompting.answer_form import bare
from rubrank.judges.prompting.files import TONGUES, Items, prompt_of
from rubrank.rubrics.rubric import Criterion
from rubrank.verifiers.domain import Domain

MOST_ITEMS = 500
_TOLERABLE = 2  # signs of a defect that make none


def facts(said: Sequence[str]) -> float:
    """All right: 1. None wrong, the first not missing, and half of them right or more (imprecise: half): 0.5."""
    if set(said) == {"right"}:
        return 1.0
    credit = sum({"right": 1.0, "imprecise": 0.5}.get(one, 0.0) for one in said) / len(said)
    return 0.5 if "wrong" not in said and said[0] != "missing" and credit >= 0.5 else 0.0


def mean(said: Sequence[str]) -> float:
    """Stated counts 1, in part a half."""
    return sum({"stated": 1.0, "part": 0.5}.get(one, 0.0) for one in said) / len(said)


def none_bad(said: Sequence[str]) -> float:
    """Nothing that is unsupported or contradicted."""
    return float(not {"unsupported", "contradicted"} & set(said))


def share(said: Sequence[str]) -> float:
    """The share that holds."""
    return sum(one == "yes" for one in said) / len(said)


def composed(said: Sequence[str]) -> float:
    """The mean of two: do all hold, and which share does."""
    return (float(share(said) == 1.0) + share(said)) / 2


RULES: dict[str, Callable[[Sequence[str]], float]] = {
    "facts": facts,
    "mean": mean,
    "none bad": none_bad,
    "share": share,
    "composed": composed,
}
"""How the items of a prompt file make a share of the domain; "few" counts them instead."""


def items_form(criterion: Criterion) -> Items | None:
    """What a judge lists for it, if anything."""
    return prompt_of(criterion, "en").items


def value_of_items(given: Any, criterion: Criterion, count: int | None = None) -> tuple[float | None, str]:
    """The value and how it came about; None, and what is wrong with the list."""
    form = items_form(criterion)
    if form is None or not isinstance(given, list):
        return None, "no list of items in the reply"
    if len(given) > MOST_ITEMS:
        return None, f"a list of {len(given)} items"
    said, problem = _verdicts(given, _words(criterion))
    if problem:
        return None, problem
    if count is not None and len(said) != count:
        return None, f"{len(said)} items are judged, the reference has {count}"
    if form.rule == "few":
        return _few(said, criterion)
    if not said:
        return None, "the list of items is empty"
    counts = Counter(said)
    how = ", ".join(f"{counts[name]} {form.words[name][0]}" for name in form.words if counts[name])
    return _value(RULES[form.rule](said), criterion.value_domain), how


def _few(said: Sequence[str], criterion: Criterion) -> tuple[float, str]:
    most = criterion.params.get("most", _TOLERABLE)
    most = most if isinstance(most, int) else _TOLERABLE
    domain = criterion.value_domain
    return (domain.high if len(said) <= most else domain.low), f"{len(said)} signs, {most} are tolerable"


def _value(part: float, domain: Domain) -> float:
    value = domain.low + part * (domain.high - domain.low)
    return min(domain.values, key=lambda one: abs(one - value)) if domain.values else round(value, 10)


def _words(criterion: Criterion) -> dict[str, str]:
    """Every word for a verdict, in either language, and its name in code → that name."""
    forms = [prompt_of(criterion, tongue).items for tongue in TONGUES]
    words = {bare(word): name for form in forms if form for name, (word, _) in form.words.items()}
    return {**{bare(name): name for form in forms if form for name in form.words}, **words}


def _verdicts(given: Sequence[Any], words: Mapping[str, str]) -> tuple[list[str], str]:
    said = []
    for number, entry in enumerate(given, 1):
        if not isinstance(entry, Mapping) or set(entry) != {"item", "verdict"}:
            return [], f"item {number} is not an object with item and verdict: {str(entry)[:60]}"
        if not isinstance(entry["item"], str) or not entry["item"].strip():
            return [], f"item {number} has no text"
        known = words.get(bare(entry["verdict"])) if isinstance(entry["verdict"], str) else None
        if known is None:
            return [], f"verdict {str(entry['verdict'])[:40]!r} of item {number} is not one of the words"
        said.append(known)
    return said, ""
