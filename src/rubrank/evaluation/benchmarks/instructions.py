"""IFEval and IFBench: instructions that programs check; the verifiers are those of `rubrank.verifiers`.

    prompt-level strict: every instruction of the prompt followed;  loose: in any of eight variants of the answer

If an instruction cannot be decided here, the score of its prompt is missing. It does not count as a failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rubrank.errors import InvalidInput, RubrankError
from rubrank.evaluation.benchmark import (
    Answer,
    Benchmark,
    DataFile,
    ItemScore,
    Metrics,
    Row,
    Setting,
    divide,
    mean,
)
from rubrank.rollouts.rollout import make_rollout
from rubrank.verifiers.ifeval.ids import public_params
from rubrank.verifiers.verifier import Mode, Verifier

_MODES: tuple[Mode, Mode] = ("strict", "loose")


class IFEval(Benchmark):
    """541 prompts with 25 kinds of instructions."""

    name = "ifeval"
    title = "IFEval"
    capability = "instruction following"
    headline = "prompt strict"
    licence = "Apache-2.0"
    data = DataFile.on_hub("ifeval.jsonl", "google/IFEval")
    settings: ClassVar = {
        "compat": Setting(
            "upstream",
            ("upstream", "fixed"),
            "verdicts as the public checkers give them, or as the words of an instruction say",
        )
    }

    # Public output files have nothing but the prompt.
    ids = ("key", "prompt", *Benchmark.ids)

    def other_ids(self, row: Row) -> Sequence[str]:
        """Return the prompt."""
        return (str(row["prompt"]),) if row.get("prompt") is not None else ()

    def _check_kind(self, verifier: Verifier) -> None:
        """Raise for an instruction of the other benchmark, whose files have the same form."""
        other_benchmark = "ifbench" if self.name == "ifeval" else "ifeval"
        if verifier.family == other_benchmark:
            raise InvalidInput(
                owner="row",
                parameter="instruction_id_list",
                allowed=f"instructions of {self.title}",
                got=repr(verifier.name),
                remedy=f"Is the benchmark {other_benchmark} meant?",
            )

    def score(self, item: Row, output: str, answers: Sequence[Answer]) -> ItemScore:
        """Score which instructions were followed, strictly and loosely."""
        rollout = make_rollout(
            {"prompt": str(item.get("prompt", "")), "response": output, "reasoning": ""}, self.name
        )
        followed: dict[str, list[float]] = {mode: [] for mode in _MODES}
        kwargs = item.get("kwargs") or [{}] * len(item["instruction_id_list"])
        for name, arguments in zip(item["instruction_id_list"], kwargs, strict=True):
            present_arguments = {
                key: value for key, value in (arguments or {}).items() if value is not None
            }
            try:
                verifier, params = public_params(name, present_arguments)
            except RubrankError as error:
                return self.missing_score(item, f"{name}: {error}")
            self._check_kind(verifier)
            try:
                checked = verifier.check_parameters(params)
            except RubrankError as error:
                return self.missing_score(item, f"{name}: {error}")
            for mode in _MODES:
                verdict = verifier.verify(
                    rollout, checked, compat=self.options["compat"], mode=mode
                )
                if verdict.value is None:
                    return self.missing_score(item, f"{name}: {verdict.reason}")
                followed[mode].append(float(verdict.value == verifier.domain.high))
        values: dict[str, float] = {"instructions": float(len(followed["strict"]))}
        for mode in _MODES:
            values[f"prompt {mode}"] = float(all(followed[mode]))
            values[f"followed {mode}"] = sum(followed[mode])
        return ItemScore(
            self.item_id(item), values, lists={mode: tuple(followed[mode]) for mode in _MODES}
        )

    def metrics(self, scores: Sequence[ItemScore]) -> Metrics:
        """Return prompt-level and instruction-level accuracy, strict and loose; the headline first."""
        instructions = sum(score.values["instructions"] for score in scores)
        metrics: Metrics = {}
        for mode in _MODES:
            metrics[f"prompt {mode}"] = mean(score.values[f"prompt {mode}"] for score in scores)
            followed = sum(score.values[f"followed {mode}"] for score in scores)
            metrics[f"instruction {mode}"] = divide(followed, instructions)
        return {self.headline: metrics[self.headline], **metrics}


class IFBench(IFEval):
    """300 prompts with 58 new kinds of instructions; the headline is the loose prompt-level accuracy."""

    name = "ifbench"
    title = "IFBench"
    headline = "prompt loose"
    licence = "ODC-BY 1.0"
    data = DataFile.on_hub("ifbench.jsonl", "allenai/IFBench_test")
