"""The experiments: one config each in ../configs, arms by name, the same seeds for all.

load_experiments(folder)["2"].arms["λ = 0.5"]      Cell(rule="rlvr2+", attributes=(…,), branch=0.7)
cells_of(experiment, seeds=5)                      seed by seed, so that what is finished can be compared
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import yaml

from rubrank import InvalidInput, UnknownName
from rubrank_lab.cell import Cell
from rubrank_lab.files import reading

ORDER = ("main", "null", "thinking", "scale", "group_size", "focal", "formatting", "headroom", "runtime", "ours")
"""By what they are worth, if not all can be run."""
SEEDS = 5
_KEYS = ("title", "paper", "arms", "reference")


@dataclass(frozen=True)
class Experiment:
    """One config."""

    name: str
    number: str
    title: str
    arms: Mapping[str, Cell]
    reference: str
    """The arm that the others are compared with."""
    paper: str = ""
    """Where the paper has its own."""


def load_experiments(folder: Path) -> dict[str, Experiment]:
    """All configs of a folder, in the order in which they are run."""
    found = {}
    for path in sorted((folder / "configs").glob("*.yaml")):
        number, _, rest = path.stem.partition("_")
        with reading(path, "an experiment: title, arms and their settings, reference"):
            experiment = _experiment(path, rest or number, number if rest else "")
        found[experiment.name] = experiment
    ranked = [name for name in ORDER if name in found]
    return {name: found[name] for name in [*ranked, *(name for name in found if name not in ORDER)]}


def choose(experiments: Mapping[str, Experiment], names: Sequence[str], more: Sequence[str] = ()) -> list[Experiment]:
    """By name or number; none, or "all", is all of them. more: names that somebody else knows."""
    chosen: dict[str, Experiment] = {}
    for name in names or ("all",):
        matching = [one for one in experiments.values() if name in ("all", one.name, one.number)]
        if not matching:
            raise UnknownName.of("lab", "NAME", name, ["all", *experiments, *more])
        chosen |= {one.name: one for one in matching}
    return list(chosen.values())


def cells_of(experiment: Experiment, seeds: int = SEEDS, smoke: bool = False) -> list[Cell]:
    """Seed by seed. smoke: two steps, one seed, few rollouts."""
    arms = [small(cell) for cell in experiment.arms.values()] if smoke else list(experiment.arms.values())
    return [replace(cell, seed=seed) for seed in range(1 if smoke else seeds) for cell in arms]


def small(cell: Cell) -> Cell:
    """The same in a few seconds."""
    return replace(cell, steps=2, rollouts=max(16, cell.group), smoke=True)


def _experiment(path: Path, name: str, number: str) -> Experiment:
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    unknown = sorted(set(data) - set(_KEYS))
    if unknown:
        raise UnknownName.of(str(path), "key", unknown[0], _KEYS)
    arms = {str(arm): _cell(path, str(arm), settings) for arm, settings in data["arms"].items()}
    reference = str(data["reference"])
    if reference not in arms:
        raise UnknownName.of(str(path), "reference", reference, arms)
    return Experiment(name, number, data["title"], arms, reference, data.get("paper", ""))


def _cell(path: Path, arm: str, settings: Mapping[str, Any]) -> Cell:
    known = {field.name for field in fields(Cell)} - {"seed", "smoke"}
    for key in settings:
        if key not in known:
            raise UnknownName.of(f"{path}: {arm}", "key", key, known)
    given = dict(settings)
    if "attributes" in given:
        given["attributes"] = tuple(given["attributes"])
    cell = Cell(**given)
    if cell.rollouts % cell.group:
        got = f"{cell.rollouts} in groups of {cell.group}"
        raise InvalidInput(f"{path}: {arm}", "group", "a divisor of the rollouts of a step", got, "")
    return cell
