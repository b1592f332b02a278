"""One group with short keys and few digits.

    c   number of its set of criteria        s   scores, G × C, as they are: an order hangs on every digit
    w   weights                              e   reasons, G × C
    u   utilities                            v   values, if not the utilities
    r   reward                               k   ranking, if not the reward
    x   effective weights                    o   outcomes by criterion
    n   number of its attribute names        a   attributes   z   mean contrasts   f   pool
    g   γ̂   y   its error   q   taken out      l   groups that it comes from
    ag  agreement of the criteria            er  standard error of each rollout's sum
    j   scale of the criteria, if not 1      p   gate: passed, factor, low quality, stopped by, missing, hard, lifted
    d   others: number of the rule → rewards
    m   prompt, with b its roles             t   responses              h   thoughts
    i   turns before each answer             ip  what else the prompt's messages have      iw  their texts; see turns.py

Numbers have seven decimals: enough for the words of the page to read as in Python.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from rubrank.records import facts
from rubrank.records.record import GroupRecord
from rubrank.records.report.grouped import Grouped
from rubrank.records.report.turns import Turns, cut
from rubrank.records.unfolding import hard_gates
from rubrank.scores.criterion import CriterionData

_DIGITS = 8
_DECIMALS = 7
_CLOSE = 1e-8
_LONGEST_REASON = 4000  # of a judge that speaks about all responses of a list at once


class Interned:
    """Tables of what repeats: every distinct value has a number."""

    def __init__(self) -> None:
        self.criteria: dict[CriterionData, int] = {}
        self.sets: dict[tuple[int, ...], int] = {}
        self.rules: dict[str, int] = {}
        self.names: dict[tuple[str, ...], int] = {}
        self.flags: dict[str, int] = {}

    def set_of(self, record: GroupRecord) -> int:
        """The number of a record's set of criteria: how many are ranked by, then each."""
        numbers = [self.criteria.setdefault(c, len(self.criteria)) for c in record.criteria]
        return self.sets.setdefault((len(record.weights), *numbers), len(self.sets))

    def rule(self, name: str) -> int:
        """The number of a rule."""
        return self.rules.setdefault(name, len(self.rules))

    def tables(self) -> dict[str, Any]:
        """The tables, in the order of the numbers."""
        return {
            "criteria": [_criterion(c) for c in self.criteria],
            "sets": list(self.sets),
            "rules": list(self.rules),
            "names": list(self.names),
            "flags": list(self.flags),
        }


def _criterion(c: CriterionData) -> dict[str, Any]:
    named = {"name": c.name, "weight": c.weight, "margin": c.margin, "higher": c.direction == "higher"}
    return {**named, "layer": c.layer, "by": c.verifier or "judge", "low": c.domain.low, "high": c.domain.high}


COLUMNS = ("id", "step", "size", "spread", "mean", "bits", "stopped", "set", "rule", "flags", "title", "best")


def index_row(group: Grouped, interned: Interned) -> tuple[Any, ...]:
    """What the list of groups needs, in the order of COLUMNS."""
    record, some = group.record, bool(group.record.size)
    row = {
        "id": record.group,
        "step": record.step,
        "size": record.size,
        "spread": short(float(np.ptp(group.reward)) if some else 0.0, 4),
        "mean": short(float(group.reward.mean()) if some else None, 4),
        "bits": facts.bits_of(record),
        "stopped": facts.stopped(record),
        "set": interned.set_of(record),
        "rule": interned.rule(record.rule),
        "flags": [interned.flags.setdefault(_kind(flag), len(interned.flags)) for flag in record.flags],
        "title": facts.title_of(record.prompt),
        "best": int(np.argmax(group.reward)) if some else None,
    }
    return tuple(row[name] for name in COLUMNS)


def group_data(group: Grouped, interned: Interned, limit: int) -> dict[str, Any]:
    """Everything else, as the keys above; what is not there has no key."""
    record = group.record
    data: dict[str, Any] = {
        "c": interned.set_of(record),
        "w": record.weights,
        "s": [_known(row) for row in record.scores],
        "u": rounded(record.utilities),
        "k": None if record.ranking == record.reward else rounded(record.ranking),
        "r": rounded(record.reward),
        "x": rounded(record.effective_weights),
        "ag": None if record.agreement is None else round(record.agreement, _DECIMALS),
        "er": None if record.agreement is None else rounded(record.error),
        "o": {name: rounded(won) for name, won in record.outcomes.items()} or None,
        "d": {str(interned.rule(rule)): rounded(reward) for rule, reward in record.others.items()} or None,
        **_attributes(record, interned),
        **_gate(record),
        **_texts(record, limit),
        **Turns(limit).of(record),
    }
    return {key: value for key, value in data.items() if value is not None}


def rounded(numbers: Any) -> Any:
    """A row or a table of numbers around 1, with few decimals; None where there is none."""
    if numbers is None:
        return None
    found = np.round(np.array(numbers, dtype=float), _DECIMALS)
    lists = (found + 0.0).tolist()  # −0 is 0
    if not np.isnan(found).any():
        return lists
    return [_known(row) for row in lists] if found.ndim == 2 else _known(lists)


def _known(row: Iterable[float | None]) -> list[float | None]:
    return [None if x is None or x != x else x for x in row]


def short(x: float | None, digits: int) -> float | None:
    """A number of any size with few digits; None where there is none."""
    return None if x is None or not math.isfinite(x) else float(f"{x:.{digits}g}")


def _attributes(record: GroupRecord, interned: Interned) -> dict[str, Any]:
    found: dict[str, Any] = {"v": None if record.values == record.utilities else rounded(record.values)}
    if record.scale is not None and any(abs(x - 1.0) > _CLOSE for x in record.scale):
        found["j"] = rounded(record.scale)
    if not record.attribute_names:
        return found
    return found | {
        "n": interned.names.setdefault(record.attribute_names, len(interned.names)),
        "a": record.attributes and [[short(x, _DIGITS) for x in row] for row in record.attributes],
        "z": rounded(record.mean_contrasts),
        "f": record.pool,
        "g": rounded(record.gamma),
        "y": rounded(record.se),
        "q": rounded(record.taken),
        "l": rounded(record.n),
    }


def _gate(record: GroupRecord) -> dict[str, Any]:
    gate = record.gate
    if gate is None:
        return {}
    number = {name: at for at, name in enumerate(hard_gates(record))}
    stopped = [[number[name] for name in names] for names in gate.stopped_by]
    lifted = rounded(record.ranking if gate.lifted is None else gate.lifted)
    passed, factor, low = [int(p) for p in gate.passed], rounded(gate.factor), rounded(gate.low_quality)
    data = [passed, factor, low, stopped, gate.missing, list(number), lifted]
    return {"p": data}


def _texts(record: GroupRecord, limit: int) -> dict[str, Any]:
    data: dict[str, Any] = {}
    if record.reasons is not None and any(map(any, record.reasons)):
        data["e"] = [[reason[:_LONGEST_REASON] for reason in row] for row in record.reasons]
    if record.prompt:
        data["b"] = [str(message.get("role", "")) for message in record.prompt]
        data["m"] = [cut(str(message.get("content", "")), limit) for message in record.prompt]
    if record.responses is not None:
        data["t"] = [cut(text, limit) for text in record.responses]
    if record.reasoning is not None and any(record.reasoning):
        data["h"] = [cut(text, limit) for text in record.reasoning]
    return data


def _kind(flag: str) -> str:
    """ "missing: Tone (3)" → "missing: Tone"."""
    head, bracket, tail = flag.rpartition(" (")
    return head if bracket and tail[:-1].isdigit() and tail.endswith(")") else flag
