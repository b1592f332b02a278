"""The value of a list of items with a verdict each, computed by code instead of estimated by the judge.

    CoreFactAccuracy       [right, right, missing]                     0.5: most are right, the first among them
    SummaryRecall          [stated, in part, absent]                   0.5: the mean
    MaterialFaithfulness   [supported, contradicted]                   0: one is enough

The value is missing if the list is empty, a verdict is unknown, an item has no text, or the number of items is not that
of the reference. A parser cannot tell whether the judge looked at the right items.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rubrank.judges.prompting.prompt_files import LANGUAGES, Items, load_criterion_prompt
from rubrank.judges.prompting.reply_form import fold_word
from rubrank.rubrics.rubric import Criterion

MAX_ITEMS = 500
_TOLERABLE_DEFECTS = 2


def _score_facts(verdicts: Sequence[str]) -> float:
    """Return 1 if all are right, else 0.5 or 0.

    0.5 if none is wrong, the first is there, and they get half of the credit (an imprecise one gets ½).
    """
    if set(verdicts) == {"right"}:
        return 1.0
    credit = verdicts.count("right") + 0.5 * verdicts.count("imprecise")
    if "wrong" in verdicts or verdicts[0] == "missing" or credit < 0.5 * len(verdicts):
        return 0.0
    return 0.5


def _score_mean(verdicts: Sequence[str]) -> float:
    """Return the mean credit: 1 if stated, ½ if stated in part."""
    return (verdicts.count("stated") + 0.5 * verdicts.count("part")) / len(verdicts)


def _score_none_bad(verdicts: Sequence[str]) -> float:
    """Return 1 if nothing is unsupported or contradicted, else 0."""
    return float(not {"unsupported", "contradicted"} & set(verdicts))


def _score_share(verdicts: Sequence[str]) -> float:
    """Return the share of items with "yes"."""
    return verdicts.count("yes") / len(verdicts)


def _score_composed(verdicts: Sequence[str]) -> float:
    """Return the mean of two numbers: 1 if all items are "yes" (else 0), and the share of "yes"."""
    share = _score_share(verdicts)
    return (float(share == 1.0) + share) / 2


RULES: dict[str, Callable[[Sequence[str]], float]] = {
    "facts": _score_facts,
    "mean": _score_mean,
    "none bad": _score_none_bad,
    "share": _score_share,
    "composed": _score_composed,
}
"""Rule in a prompt file → how the verdicts on the items give a share of the domain. The rule "few" counts items."""


def find_items(criterion: Criterion) -> Items | None:
    """Return what a judge lists for the criterion; None if it lists nothing."""
    return load_criterion_prompt(criterion, "en").items


def score_items(
    entries: Any, criterion: Criterion, count: int | None = None
) -> tuple[float | None, str]:
    """Return the value and its explanation, or None and what is wrong. count: how many items there must be."""
    form = find_items(criterion)
    if form is None or not isinstance(entries, list):
        return None, "no list of items in the reply"
    if len(entries) > MAX_ITEMS:
        return None, f"a list of {len(entries)} items"
    verdicts, problem = _read_verdicts(entries, _map_words_to_names(criterion))
    if problem:
        return None, problem
    if count is not None and len(verdicts) != count:
        return None, f"{len(verdicts)} items are judged, the reference has {count}"
    domain = criterion.value_domain
    if form.rule == "few":
        tolerable = criterion.params.get("most", _TOLERABLE_DEFECTS)
        if not isinstance(tolerable, int):
            tolerable = _TOLERABLE_DEFECTS
        value = domain.high if len(verdicts) <= tolerable else domain.low
        return value, f"{len(verdicts)} signs, {tolerable} are tolerable"
    if not verdicts:
        return None, "the list of items is empty"
    value = domain.low + RULES[form.rule](verdicts) * (domain.high - domain.low)
    if domain.values:
        value = min(domain.values, key=lambda allowed: abs(allowed - value))
    else:
        value = round(value, 10)
    counts = Counter(verdicts)
    return value, ", ".join(
        f"{counts[name]} {form.words[name][0]}" for name in form.words if counts[name]
    )


def _map_words_to_names(criterion: Criterion) -> dict[str, str]:
    """Return the name in code of every word for a verdict, in either language; a name stands for itself, too."""
    names: dict[str, str] = {}
    words: dict[str, str] = {}
    for language in LANGUAGES:
        form = load_criterion_prompt(criterion, language).items
        if form is not None:
            for name, (word, _) in form.words.items():
                names[fold_word(name)] = name
                words[fold_word(word)] = name
    return {**names, **words}


def _read_verdicts(
    entries: Sequence[Any], names_by_word: Mapping[str, str]
) -> tuple[list[str], str]:
    """Return the verdicts by their names in code and "", or [] and the problem."""
    verdicts = []
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, Mapping) or set(entry) != {"item", "verdict"}:
            return [], f"item {number} is not an object with item and verdict: {str(entry)[:60]}"
        if not isinstance(entry["item"], str) or not entry["item"].strip():
            return [], f"item {number} has no text"
        word = entry["verdict"]
        name = names_by_word.get(fold_word(word)) if isinstance(word, str) else None
        if name is None:
            return [], f"verdict {str(word)[:40]!r} of item {number} is not one of the words"
        verdicts.append(name)
    return verdicts, ""
