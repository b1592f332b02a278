"""One group for the page: its record with short keys, under the rule that it was fused by or under another.

shown(run.line(17))                    as it was recorded
shown(run.line(17), rule="gdpo+")      the same scores under another rule, replayed now
"""

from __future__ import annotations

import json
from typing import Any

from rubrank.records import facts
from rubrank.records.files import record_in
from rubrank.records.making import score_table
from rubrank.records.record import GroupRecord, record_table
from rubrank.records.report.compact import Interned, group_data, short
from rubrank.records.report.grouped import Grouped

_WHOLE = 10_000_000  # characters: nothing is cut in the viewer
_KEPT = ("group", "step", "reasons", "prompt", "turns", "responses", "reasoning", "tokens", "metadata")


def record_of(line: bytes) -> GroupRecord:
    """The whole record; raises for what is none."""
    return record_in(line.decode("utf-8", "surrogatepass"), "the record")


def replayed(record: GroupRecord, rule: str) -> GroupRecord:
    """The record under another rule: its scores are fused anew, by themselves."""
    (found,) = record_table(score_table([record]), rule)
    others = {name: rewards for name, rewards in record.others.items() if name != found.rule}
    kept = {name: getattr(record, name) for name in _KEPT}
    return found.model_copy(update={**kept, "others": {record.rule: record.reward, **others}})


def shown(line: bytes, rule: str = "") -> dict[str, Any]:
    """What the page needs to draw a group."""
    written = record_of(line)
    record = replayed(written, rule) if rule and rule != written.rule else written
    interned = Interned()
    raw = group_data(Grouped.of(record), interned, _WHOLE)
    return {
        "id": record.group,
        "noSignal": record.no_signal,
        "raw": raw,
        "tables": interned.tables(),
        "bits": facts.bits_of(record),
        "stopped": facts.stopped(record),
        "flags": list(record.flags),
        "step": record.step,
        "rule": record.rule,
        "written": written.rule,
        "replayed": record is not written,
        "adjusted": bool(written.attribute_names),
        "metadata": json.loads(json.dumps(dict(record.metadata), default=str)),
    }


def means(record: GroupRecord) -> dict[str, float | None]:
    """Criterion → mean score of the group."""
    found: dict[str, float | None] = {}
    for k, criterion in enumerate(record.criteria):
        known = [row[k] for row in record.scores if row[k] is not None]
        found[criterion.name] = short(sum(known) / len(known), 6) if known else None  # type: ignore[arg-type]
    return found


def csv_rows(record: GroupRecord, run: str, g: int) -> list[dict[str, Any]]:
    """One row for each rollout: reward, ranking, gate, every score."""
    names = [criterion.name for criterion in record.criteria]
    rows = []
    for i, reward in enumerate(record.reward):
        row: dict[str, Any] = {"run": run, "number": g, "group": record.group, "step": record.step, "rule": record.rule}
        row |= {"rollout": i, "reward": reward, "ranking": record.ranking[i]}
        row["stopped_by"] = "; ".join(record.gate.stopped_by[i]) if record.gate else ""
        rows.append(row | {f"score: {name}": record.scores[i][k] for k, name in enumerate(names)})
    return rows
