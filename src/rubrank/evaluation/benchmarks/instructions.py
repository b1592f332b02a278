"""IFEval and IFBench: instructions that programs check; the verifiers are those of `rubrank.verifiers`.

    prompt-level strict: every instruction of the prompt followed;  loose: in any of eight variants of the answer

If an instruction cannot be decided here, the score of its prompt is missing. It does not count as a failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rubrank.errors import InvalidInput, RubrankError
from rubrank.evaluation.benchmark import (
    Benchmark,
    DataFile,
    ItemScore,
    Metrics,
    MissingScore,
    Row,
    Setting,
    divide_sums,
    mean_value,
)
from rubrank.rollouts.rollout import make_rollout
from rubrank.verifiers.instruction_items import public_params
from rubrank.verifiers.verifier import Mode

_MODES: tuple[Mode, Mode] = ("strict", "loose")
_OTHER = {"ifeval": "ifbench", "ifbench": "ifeval"}


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

    def score(self, item: Row, output: str, replies: Sequence[str]) -> ItemScore:
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
                is_foreign = verifier.family == _OTHER[self.name]
                if not is_foreign:
                    checked = verifier.check_parameters(params)
            except RubrankError as error:
                raise MissingScore(f"{name}: {error}") from None
            if is_foreign:  # the files of both benchmarks have the same form
                allowed = f"instructions of {self.title}"
                remedy = f"Is the benchmark {_OTHER[self.name]} meant?"
                raise InvalidInput("row", "instruction_id_list", allowed, repr(name), remedy)
            for mode in _MODES:
                verdict = verifier.verify(
                    rollout, checked, compat=self.options["compat"], mode=mode
                )
                if verdict.value is None:
                    raise MissingScore(f"{name}: {verdict.reason}")
                followed[mode].append(float(verdict.value == verifier.domain.high))
        values: dict[str, float] = {"instructions": float(len(followed["strict"]))}
        for mode in _MODES:
            values[f"prompt {mode}"] = float(all(followed[mode]))
            values[f"followed {mode}"] = sum(followed[mode])
        return self.make_score(item, values)

    def metrics(self, scores: Sequence[ItemScore]) -> Metrics:
        """Return prompt-level and instruction-level accuracy, strict and loose; the headline first."""
        metrics: Metrics = {}
        for mode in _MODES:
            metrics[f"prompt {mode}"] = mean_value(scores, f"prompt {mode}")
            metrics[f"instruction {mode}"] = divide_sums(scores, f"followed {mode}", "instructions")
        return {self.headline: metrics[self.headline], **metrics}


class IFBench(IFEval):
    """300 prompts with 58 new kinds of instructions; the headline is the loose prompt-level accuracy."""

    name = "ifbench"
    title = "IFBench"
    headline = "prompt loose"
    licence = "ODC-BY 1.0"
    data = DataFile.on_hub("ifbench.jsonl", "allenai/IFBench_test")
