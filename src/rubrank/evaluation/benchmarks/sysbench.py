"""SysBench: does a model keep to a system prompt over five turns?

    one turn, three constraints, judged yes, yes, no      CSR counts 2 of 3, ISR 0 of 1
    a dialogue whose turns are met, met, not, met, met    SSR 2/5: turns up to the first failure

CSR: constraints followed, over all; ISR: turns with every constraint met; SSR: mean share of a dialogue's turns before
the first that failed. One call of a judge a turn; its ids must be those asked for, or the turn is missing. Judges also
say "does not apply": upstream such a constraint counts as not followed in CSR and as no failure of its turn.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar

from rubrank.evaluation.benchmark import (
    Answer,
    Benchmark,
    DataFile,
    ItemScore,
    Messages,
    Metrics,
    Row,
    Setting,
    mean,
    mean_by_label,
)
from rubrank.evaluation.judge import fill_prompt, parse_json_object

_YES, _NO = {"yes", "true", "1", "是"}, {"no", "false", "0", "否"}
TURNS = 5


class SysBench(Benchmark):
    """500 dialogues × 5 turns, constraints of a system prompt."""

    name = "sysbench"
    title = "SysBench"
    capability = "instruction following"
    headline = "ISR"
    judge = "GPT-4o, one call per turn"
    licence = "none stated"
    data = DataFile("sysbench.jsonl", "git clone PKU-Baichuan-MLSystemLab/SysBench and convert its turns to JSON lines")
    settings: ClassVar = {
        "history": Setting("own", ("own", "reference"), "whose earlier answers the model sees"),
        "compat": Setting("upstream", ("upstream", "fixed"), "neither yes nor no: no failure, or missing"),
    }

    def item_id(self, row: Row) -> str:
        """Dialogue and turn."""
        if "system_id" in row:
            return f"{row['system_id']}/{row['turn']}"
        return super().item_id(row)

    def published_score(self, item: Row, row: Row) -> ItemScore | None:
        """The published verdicts, where all constraints of the turn have one."""
        criteria = row.get("criteria") or ()
        if not criteria or any(criterion.get("verdict") is None for criterion in criteria):
            return None
        verdicts = {str(c["id"]): c["verdict"] for c in criteria}
        return self._make_score(row, verdicts, str(row.get("judge_reason", "")))

    def prompt(self, item: Row) -> Messages:
        """The system prompt, the turns before, and this turn."""
        before = item.get("history") or ()
        return [
            {"role": "system", "content": str(item["system_prompt"])},
            *before,
            {"role": "user", "content": str(item["prompt"])},
        ]

    def questions(self, item: Row, output: str) -> list[Messages]:
        """One question about all constraints of the turn."""
        listed = "\n".join(f"{c['id']}. {c['text']} | {c.get('type', 'constraint')}" for c in item["criteria"])
        history = "\n".join(f"{m['role']}: {m['content']}" for m in item.get("history") or ())
        return [
            fill_prompt(
                "sysbench",
                system=item["system_prompt"],
                history=history or "(first turn)",
                turn=item["prompt"],
                response=output,
                constraints=listed,
            )
        ]

    def score(self, item: Row, output: str, answers: Sequence[Answer]) -> ItemScore:
        """Yes or no for each constraint."""
        answer = answers[0]
        reply = parse_json_object(answer.text)
        result = reply.get("result") if reply else None
        if not isinstance(result, dict):
            return self.missing_score(item, answer.reason or "the judge's reply holds no verdicts")
        return self._make_score(item, {str(k): v for k, v in result.items()}, str((reply or {}).get("reason", "")))

    def _make_score(self, item: Row, verdicts: dict[str, Any], reason: str) -> ItemScore:
        constraint_ids = [str(criterion["id"]) for criterion in item["criteria"]]
        read = [_verdict(verdicts.get(id)) for id in constraint_ids]
        unread = any(v is None for v in read)
        if sorted(verdicts) != sorted(constraint_ids) or (unread and self.options["compat"] == "fixed"):
            got = json.dumps(verdicts, ensure_ascii=False)[:200]
            return self.missing_score(item, f"the judge answered {got}, constraints are {', '.join(constraint_ids)}")
        met = tuple(float(bool(v)) for v in read)
        labels = {"dialogue": str(item.get("system_id", "")), "turn": str(item.get("turn", ""))}
        if item.get("alignment"):
            labels["alignment"] = str(item["alignment"])
        values = {"followed": sum(met), "constraints": float(len(met)), "all": float(False not in read)}
        return ItemScore(self.item_id(item), values, reason, labels=labels, lists={"met": met})

    def metrics(self, scores: Sequence[ItemScore]) -> Metrics:
        """ISR, CSR, SSR, and ISR by alignment."""
        followed = sum(score.values["followed"] for score in scores)
        constraints = sum(score.values["constraints"] for score in scores)
        return {
            "ISR": mean(score.values["all"] for score in scores),
            "CSR": followed / constraints if constraints else float("nan"),
            "SSR": mean(_stable(dialogue) for dialogue in _dialogues(scores)),
            **mean_by_label(scores, "alignment", "all", "ISR/"),
        }


def _verdict(value: Any) -> bool | None:
    text = str(value).strip().lower()
    return True if text in _YES else False if text in _NO else None


def _dialogues(scores: Sequence[ItemScore]) -> list[list[ItemScore]]:
    """The turns of each dialogue, those of which all five were judged."""
    by_dialogue: dict[str, list[ItemScore]] = {}
    for score in scores:
        by_dialogue.setdefault(f"{score.labels['dialogue']}/{score.repeat}", []).append(score)
    whole = [sorted(turns, key=lambda s: int(s.labels["turn"])) for turns in by_dialogue.values()]
    return [turns for turns in whole if [int(s.labels["turn"]) for s in turns] == list(range(1, TURNS + 1))]


def _stable(turns: Sequence[ItemScore]) -> float:
    """Share of the turns before the first failure."""
    failed = [i for i, turn in enumerate(turns) if not turn.values["all"]]
    return (failed[0] if failed else len(turns)) / TURNS
