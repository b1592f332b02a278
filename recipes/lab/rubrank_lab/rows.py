"""The prompts with their rubrics, as `rubrank train` reads them.

row = row_of(ask)
row["prompt"]      about bees. give 3 facts. …
row["rubric"]      what this prompt asks for: 6 to 15 of the criteria, and the gates
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rubrank_lab.files import replacing
from rubrank_lab.truth import most_words
from rubrank_lab.world import CLOSING, Ask, draw_ask

TRAINED, HELD_OUT = 400, 48
CHALLENGING = ("FactCount", "Coverage", "Title", "List", "Closing", "Order", "Short")
"""Verified criteria on a scale from 0 to 1 whose mean on held-out prompts is below 2/3 before training."""
SATURATED = ("Avoid", "NoComma", "OnTopic")
"""Those whose mean is above 0.8."""
JUDGED = ("Accuracy", "Helpful", "Clear")
GATES = ("Truncated", "EmptyAnswer", "LabRepeats", "LabLanguage")
QUESTIONS: Mapping[str, tuple[str, Any, float]] = {
    "Accuracy": ("How accurate and complete are the facts?", [float(value) for value in range(11)], 3.0),
    "Helpful": ("How helpful is the answer?", [1.0, 2.0, 3.0, 4.0, 5.0], 2.0),
    "Clear": ("Is the answer clear?", "binary", 1.0),
}
"""Judged criterion → question, domain, weight."""

DEPENDS: Mapping[str, tuple[str, ...]] = {"Helpful": ("Accuracy",), "Clear": ("FactCount",)}
"""What a judged criterion builds on; GEAR alone uses it."""


def row_of(ask: Ask, number: int, scale: Mapping[str, float] | None = None, only: str = "") -> dict[str, Any]:
    """One row. scale: of Density, other than 0 to 100; only="binary": yes/no criteria alone."""
    chance = random.Random(number)
    judged = ["Accuracy", *(name for name in JUDGED[1:] if chance.random() < 0.55)]
    criteria: list[Any] = [*_verified(ask, scale, chance.random() < 0.6), *(_judged(name) for name in judged)]
    if only == "binary":
        criteria = [one for one in criteria if one["name"] not in ("Coverage", "Order", "Density", "Variety", *JUDGED)]
    criteria += [*GATES, {"name": "NoOpening", "verifier": "LabNoOpening"}]
    return {"prompt": ask.prompt, "rubric": json.dumps({"criteria": criteria})}


def _verified(ask: Ask, scale: Mapping[str, float] | None, dense: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": "FactCount", "verifier": "LabFactCount"},
        {"name": "OnTopic", "verifier": "Keyword", "params": {"keywords": [ask.topic]}},
        {"name": "Variety", "verifier": "LabVariety"},
    ]
    if ask.mention:
        found.append({"name": "Coverage", "verifier": "LabCoverage", "weight": 2.0})
    if ask.avoid:
        found.append({"name": "Avoid", "verifier": "ForbiddenContent", "params": {"words": [ask.avoid]}})
    if ask.title:
        found.append({"name": "Title", "verifier": "TitleFormat", "params": {"style": "heading"}})
    if ask.bullets:
        found.append({"name": "List", "verifier": "BulletCount", "params": {"count": ask.facts}})
    if ask.closing:
        found.append({"name": "Closing", "verifier": "startend:end_checker", "params": {"end_phrase": f"{CLOSING}."}})
    if ask.ordered:
        found.append({"name": "Order", "verifier": "LabOrder", "depends": ["FactCount"]})
    if ask.no_commas:
        found.append({"name": "NoComma", "verifier": "punctuation:no_comma"})
    if ask.short:
        params = {"relation": "at most", "count": most_words(ask)}
        found.append({"name": "Short", "verifier": "WordCount", "params": params})
    return [*found, _density(scale or {})] if dense else found


def _density(scale: Mapping[str, float]) -> dict[str, Any]:
    params = {"times": 100.0, **scale}
    low = params.get("plus", 0.0)
    domain = {"low": low, "high": low + params["times"]}
    return {"name": "Density", "verifier": "LabDensity", "params": params, "domain": domain, "depends": ["OnTopic"]}


def _judged(name: str) -> dict[str, Any]:
    question, domain, weight = QUESTIONS[name]
    found = {"name": name, "question": question, "domain": domain, "weight": weight}
    return found | ({"depends": list(DEPENDS[name])} if name in DEPENDS else {})


def write_rows(folder: Path, scale: Mapping[str, float] | None = None, only: str = "") -> None:
    """folder/prompts.jsonl and held_out.jsonl; the same asks whatever the rubric."""
    chance = random.Random(7)
    asks: dict[str, Ask] = {}
    while len(asks) < TRAINED + HELD_OUT:
        ask = draw_ask(chance)
        asks[ask.prompt] = ask
    rows = [row_of(ask, number, scale, only) for number, ask in enumerate(asks.values())]
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in (("prompts", rows[:TRAINED]), ("held_out", rows[TRAINED:])):
        text = "".join(json.dumps(row) + "\n" for row in part)
        with replacing(folder / f"{name}.jsonl") as partial:  # another process may read it
            partial.write_text(text, encoding="utf-8")
