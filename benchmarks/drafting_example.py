"""A worked example of drafting: 20 prompts → rubrics → scores → what was kept, and why.

    python benchmarks/drafting_example.py [docs/drafting_example.md]       writes the page

Writers and judges are scripted (`scripted_models.py`); no real model is run. Everything else is what `rubrank draft`
and `rubrank grade` do.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from scripted_models import ScriptedModels

from rubrank.drafting.draft import DraftedItem, DraftedRubric
from rubrank.drafting.pipeline import DraftResult, KnownResponses, PromptRow, draft_rubrics
from rubrank.drafting.writers import load_writers
from rubrank.grading.grade import grade
from rubrank.judges.judge import load_judges

FILLER = (
    "This is a question that many people ask, and there is a lot to be said about it in general, as everybody knows."
)
TOPICS: tuple[tuple[str, str, str, str], ...] = (
    (
        "Why do tides happen? Use at most 60 words.",
        "The moon pulls the ocean.",
        "The sun adds to it.",
        "Earth rotates.",
    ),
    (
        "Explain photosynthesis in two or three sentences.",
        "Leaves take in light.",
        "Chlorophyll absorbs it.",
        "Oxygen leaves.",
    ),
    ("Compare tea and coffee in a markdown table.", "Tea has tannin.", "Coffee has caffeine.", "Both are brewed."),
    ("List exactly 3 noble gases as bullet points.", "Helium is one.", "Neon glows.", "Argon is common."),
    (
        'What is inflation? Do not use the word "money".',
        "Prices rise.",
        "Wages follow slowly.",
        "Banks raise interest.",
    ),
    (
        'Describe how bread rises. Include the word "yeast".',
        "Yeast eats sugar.",
        "Gas makes bubbles.",
        "Gluten holds them.",
    ),
    (
        "Why is the sky blue? Answer in English only.",
        "Light scatters.",
        "Short waves scatter more.",
        "Sunsets are red.",
    ),
    (
        "Give the planets and their moons in rows and columns.",
        "Mars has Phobos.",
        "Jupiter has Europa.",
        "Saturn has Titan.",
    ),
    ("How do vaccines work?", "They train immunity.", "Antibodies are made.", "Memory cells remain."),
    ("What causes earthquakes?", "Plates move.", "Faults slip.", "Energy becomes waves."),
    ("How does a refrigerator cool?", "A compressor works.", "The coolant evaporates.", "Heat leaves behind."),
    ("Why do leaves change colour in autumn?", "Chlorophyll decays.", "Carotene shows.", "Days get shorter."),
    ("What does a central bank do?", "It sets rates.", "It issues currency.", "It supervises lenders."),
    ("How do bees make honey?", "They collect nectar.", "Enzymes split sugar.", "Water evaporates."),
    ("Why does ice float?", "Water expands.", "Crystals are open.", "Density falls."),
    ("What is a black hole?", "Gravity traps light.", "The horizon is final.", "Stars collapse."),
    ("How do noise-cancelling headphones work?", "Microphones listen.", "Waves are inverted.", "They cancel."),
    ("Why do we yawn?", "Brains are cooled.", "Yawning is contagious.", "Sleepiness triggers it."),
    ("How are rainbows formed?", "Drops refract light.", "Colours separate.", "Sunlight reflects inside."),
    ("What is compound interest?", "Interest earns interest.", "Growth is exponential.", "Time matters."),
)


def make_responses(facts: Sequence[str]) -> KnownResponses:
    """Four responses: all facts, two, one behind much filler, and filler alone; so the longest are the weakest."""
    texts = [" ".join(facts), " ".join(facts[:2]), f"{FILLER} {facts[0]}", FILLER]
    return KnownResponses(texts, [4.0, 3.0, 2.0, 1.0])


def run() -> tuple[DraftResult, dict[str, list[float]]]:
    """The drafted rubrics, and the total score of every response under them."""
    rows = [PromptRow(prompt) for prompt, *_ in TOPICS]
    responses = {prompt: make_responses(facts) for prompt, *facts in TOPICS}
    with ScriptedModels() as models:
        writers = load_writers(models.settings("scripted writer"))
        judges = load_judges(models.settings("scripted judge"))
        result = draft_rubrics(rows, activate=False, writers=writers, judges=judges, responses=responses)
        graded_rows = []
        for rubric in result.rubrics:
            data = {"criteria": rubric.rubric()["criteria"]}
            if data["criteria"]:
                texts = list(responses[rubric.prompt].texts)
                graded_rows.append({"id": rubric.prompt, "prompt": rubric.prompt, "responses": texts, "rubric": data})
        table = grade(graded_rows, judges=judges)
    totals = {}
    for group in table.groups:
        weights = [criterion.weight for criterion in group.criteria]
        totals[group.id] = [round(float(row @ weights) / sum(weights), 2) for row in group.scores]
    return result, totals


def write_page(result: DraftResult, totals: dict[str, list[float]]) -> str:
    """The page in Markdown."""
    items = [item for rubric in result.rubrics for item in rubric.items]
    kept_steps = Counter(item.step for item in items if item.kept)
    reasons = Counter(shorten_reason(item.reason) for item in items if not item.kept)
    assert result.account is not None
    lines = [
        "# Twenty prompts, from draft to scores",
        "",
        "This page is written by `python benchmarks/drafting_example.py`. **No real model was run:** writer and judge",
        "are scripts that answer by rule, and the four responses to each prompt were made by hand. The page shows what",
        "[`rubrank draft`](drafting.md) does with items, not how good the items of a model are.",
        "",
        f"{len(result.rubrics)} prompts, {len(items)} items: {kept_steps['compiled']} compiled by rules, "
        f"{kept_steps['compiled by a model']} found by the (scripted) model and verified,",
        f"{kept_steps['written']} written and kept, {sum(reasons.values())} dropped. "
        f"{result.account.calls} calls of writers and judges.",
        "",
        "## Why items were dropped",
        "",
        "| reason | items |",
        "|---|--:|",
        *(f"| {reason} | {count} |" for reason, count in sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))),
        "",
        "The writer asks for words that the best response has and the weakest lacks, and adds four items that ought to",
        "go: a double question (refused before anything is measured), one that every response fulfils, one that likes",
        "length, although the long responses are the weak ones, and one that the judge answers differently when asked",
        "again.",
        "",
        "## The rubrics",
        "",
        "Scores are those of the four responses under the kept criteria, the strongest response first.",
        "",
        "| prompt | criteria that were kept | scores |",
        "|---|---|---|",
    ]
    for rubric in result.rubrics:
        names = "; ".join(describe(item) for item in rubric.items if item.kept)
        scores = ", ".join(f"{score:g}" for score in totals.get(rubric.prompt, []))
        lines.append(f"| {rubric.prompt} | {names} | {scores} |")
    lines += ["", "## One rubric in full", "", *write_details(result.rubrics[0])]
    return "\n".join(lines) + "\n"


def shorten_reason(reason: str) -> str:
    """The reason without its figures, so that equal reasons are counted together."""
    return reason.split(" (")[0].replace(" 0% ", " none ")


def describe(item: DraftedItem) -> str:
    if "question" in item.criterion:
        return str(item.criterion["question"])
    return item.name


def write_details(rubric: DraftedRubric) -> list[str]:
    """Every item of one prompt with its figures and the decision."""
    lines = [f"`{rubric.prompt}`", "", "| item | step | figures | decision |", "|---|---|---|---|"]
    for item in rubric.items:
        figures = ", ".join(f"{name} {value}" for name, value in item.figures.items() if value is not None)
        decision = "kept" if item.kept else f"dropped: {item.reason}"
        if item.criterion.get("depends"):
            decision += f", depends on “{item.criterion['depends'][0]}”"
        lines.append(f"| {describe(item)} | {item.step} | {figures} | {decision} |")
    lines += [
        "",
        "`decided` is the share of the pairs of responses that the item decides; `kappa` the judge's agreement with",
        "itself; `enforced` says whether a rewrite which violates the item is caught; `strength`, `length` and",
        "`markdown` are τ with what is known about the responses; `adds` is the share of its pairs that earlier items",
        "leave open.",
    ]
    return lines


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/drafting_example.md")
    target.write_text(write_page(*run()), encoding="utf-8")
    print(target)
