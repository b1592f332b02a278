"""AdvancedIF: are all criteria of an expert's rubric met?

    four criteria, verdicts yes, yes, yes, no       all-satisfied 0, three of four criteria

The judge answers all criteria of an item in one call; a list of another length than the rubric is a fault of the
judge, and missing. Data is CC BY-NC: by path only.
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


class AdvancedIF(Benchmark):
    """Complex instructions, carried context, steerability by a system prompt."""

    name = "advancedif"
    title = "AdvancedIF"
    capability = "instruction following"
    headline = "all satisfied"
    judge = "o3-mini, all criteria in one call"
    licence = "CC BY-NC 4.0"
    data = DataFile.on_hub("advancedif.jsonl", "facebook/AdvancedIF")
    settings: ClassVar = {
        "judges": Setting("any", help="of a file with several judges' verdicts, whose count; any: the first listed")
    }

    def item_id(self, row: Row) -> str:
        """Given, or made of the conversation."""
        if row.get("example_id") is not None:
            return str(row["example_id"])
        if "conversation_history" in row and "id" not in row:
            return str(row["conversation_history"])
        return super().item_id(row)

    def output(self, row: Row) -> str:
        """The last message of a response that is a list of messages."""
        value = _decode_json(super().output(row))
        return str(value[-1]["content"]) if isinstance(value, list) and value else str(value)

    def prompt(self, item: Row) -> Messages:
        """The conversation so far."""
        messages: Messages = _decode_json(item.get("conversation_history") or item.get("conversation"))
        return messages

    def published_score(self, item: Row, row: Row) -> ItemScore | None:
        """Verdicts in the row: a list of yes/no a judge."""
        verdicts = row.get("verdicts")
        if not verdicts:
            return None
        name = self.options["judges"]
        listed = verdicts.get(name) if name != "any" else next(iter(verdicts.values()))
        if not listed or listed[0] is None:
            return self.missing_score(row, f"no verdicts of judge {name!r}")
        return self._make_score(row, list(listed[0]), "")

    def questions(self, item: Row, output: str) -> list[Messages]:
        """All criteria in one question; the system prompt instead of the history where the item is about that."""
        messages = self.prompt(item)
        system = [m["content"] for m in messages if m["role"] == "system"]
        about = system[0] if system else "\n".join(f"{m['role']}: {m['content']}" for m in messages[:-1])
        listed = "\n".join(f"question_{k}: {text}" for k, text in enumerate(rubric_of(item), 1))
        kind = "system prompt" if system else "earlier turns"
        last = messages[-1]["content"]
        return [
            fill_prompt("advancedif", kind=kind, about=about or "(none)", turn=last, response=output, criteria=listed)
        ]

    def score(self, item: Row, output: str, answers: Sequence[Answer]) -> ItemScore:
        """Each criterion by the word its text begins with."""
        answer = answers[0]
        reply = parse_json_object(answer.text)
        checks = (reply or {}).get("rubrics_check")
        if not isinstance(checks, dict):
            return self.missing_score(item, answer.reason or "the judge's reply holds no verdicts")
        keys = [f"question_{k}" for k in range(1, len(rubric_of(item)) + 1)]
        if sorted(checks) != sorted(keys):
            return self.missing_score(item, f"{len(checks)} verdicts for {len(keys)} criteria")
        return self._make_score(item, [_parse_yes_no(str(checks[key])) for key in keys], "")

    def _make_score(self, item: Row, verdicts: Sequence[bool | None], reason: str) -> ItemScore:
        rubric = rubric_of(item)
        if len(verdicts) != len(rubric):
            missing = f"{len(verdicts)} verdicts for {len(rubric)} criteria"
            return self.missing_score(item, missing)
        if any(verdict is None for verdict in verdicts):
            return self.missing_score(item, "a verdict begins with neither YES nor NO")
        met = tuple(float(bool(verdict)) for verdict in verdicts)
        values = {"all": float(all(met)), "met": sum(met), "criteria": float(len(met))}
        labels = {"category": str(item.get("benchmark_name", ""))}
        return ItemScore(self.item_id(item), values, reason, labels=labels, lists={"met": met})

    def metrics(self, scores: Sequence[ItemScore]) -> Metrics:
        """Share of items with all criteria met, share of criteria, and by category."""
        criteria = sum(score.values["criteria"] for score in scores)
        met = sum(score.values["met"] for score in scores)
        return {
            "all satisfied": mean(score.values["all"] for score in scores),
            "criteria met": met / criteria if criteria else float("nan"),
            **mean_by_label(scores, "category", "all", "all satisfied/"),
        }


def rubric_of(item: Row) -> list[str]:
    """The criteria of an item, in the official schema or plain."""
    if "rubrics" in item:
        return [str(text) for text in _decode_json(item["rubrics"])]
    return [str(text) for text in _decode_json(_decode_json(item["prompt_metadata"])["rubrics"])]


def _decode_json(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in "[{":
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _parse_yes_no(text: str) -> bool | None:
    word = text.lstrip(" *\"'").upper()
    return True if word.startswith("YES") else False if word.startswith("NO") else None
