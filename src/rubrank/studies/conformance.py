"""How often rubrank's verdicts agree with the published ones: `rubrank conformance FILE`.

    result = measure("en_groups.jsonl.gz")
    result.strict, result.per_id["en:punctuation:no_comma"].strict        (0.996, 1.0)

A file has a prompt per line (JSON Lines, plain or gzip) with `instruction_id_list` and `kwargs`, and its answers in one
of two shapes: `responses`, a list of {response, strict: [...], loose: [...]}, or these three keys in the row itself.
The verdicts are in the order of the instructions. Instructions that no verifier knows are counted in `unknown`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from rubrank._plain import shortened
from rubrank.errors import InvalidInput, RubrankError, UnknownName, only_our_errors
from rubrank.rollouts.messages import parse_json_cell
from rubrank.rollouts.rollout import Rollout, to_rollout
from rubrank.tables.rows import read_rows
from rubrank.verifiers.ifeval.ids import public_params
from rubrank.verifiers.verifier import Compat, Mode

MODES: tuple[Mode, Mode] = ("strict", "loose")
_SHAPES = "`rubrank help conformance` shows the two shapes."


@dataclass(frozen=True)
class VerdictAgreement:
    """Shares of equal verdicts among n published ones; None if the file has none of that mode."""

    strict: float | None
    loose: float | None
    n: int


@dataclass(frozen=True)
class Disagreement:
    """One verdict that differs; `ours` is None if the verifier could not decide."""

    key: str
    id: str
    mode: Mode
    published: bool
    ours: bool | None
    reason: str
    model: str | None = None


@dataclass(frozen=True)
class Conformance:
    """The agreement of a whole file, of each instruction id, and every disagreement."""

    strict: float | None
    loose: float | None
    n: int
    per_id: Mapping[str, VerdictAgreement]
    disagreements: tuple[Disagreement, ...]
    unknown: Mapping[str, int] = field(default_factory=dict)
    """Instructions that were not compared: how many answers there are of each id without a usable verifier."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "strict": self.strict,
            "loose": self.loose,
            "n": self.n,
            "per_id": {name: vars(agreement) for name, agreement in self.per_id.items()},
            "disagreements": [vars(disagreement) for disagreement in self.disagreements],
            "unknown": dict(self.unknown),
        }


@only_our_errors
def measure(path: str | Path, compat: Compat = "upstream") -> Conformance:
    """Check every answer of the file and compare with the published verdicts."""
    if compat not in get_args(Compat):
        raise UnknownName.of("measure", "compat", compat, get_args(Compat))
    tally = _Tally()
    for number, row in enumerate(read_rows(path), start=1):
        _measure_row(row, str(path), str(row.get("key", number)), compat, tally)
    if not tally.equal and not tally.unknown:
        raise InvalidInput(str(path), "the file", "rows with published verdicts", "none", _SHAPES)
    return tally.result()


class _Tally:
    """Counts equal and different verdicts."""

    def __init__(self) -> None:
        self.equal: dict[str, dict[Mode, list[bool]]] = defaultdict(
            lambda: {"strict": [], "loose": []}
        )
        self.disagreements: list[Disagreement] = []
        self.unknown: dict[str, int] = defaultdict(int)

    def add(self, verdict: Disagreement) -> None:
        """Count a verdict; it is a disagreement if it differs from the published one."""
        is_equal = verdict.ours is verdict.published
        self.equal[verdict.id][verdict.mode].append(is_equal)
        if not is_equal:
            self.disagreements.append(verdict)

    def result(self) -> Conformance:
        per_id = {name: _measure_agreement(by_mode) for name, by_mode in sorted(self.equal.items())}
        all_verdicts: dict[Mode, list[bool]] = {}
        for mode in MODES:
            all_verdicts[mode] = [
                is_equal for by_mode in self.equal.values() for is_equal in by_mode[mode]
            ]
        total = _measure_agreement(all_verdicts)
        return Conformance(
            total.strict,
            total.loose,
            total.n,
            per_id,
            tuple(self.disagreements),
            dict(sorted(self.unknown.items())),
        )


def _measure_agreement(by_mode: Mapping[Mode, list[bool]]) -> VerdictAgreement:
    shares: dict[Mode, float | None] = {}
    for mode, are_equal in by_mode.items():
        shares[mode] = sum(are_equal) / len(are_equal) if are_equal else None
    return VerdictAgreement(shares["strict"], shares["loose"], max(map(len, by_mode.values())))


def _measure_row(
    row: Mapping[str, Any], file: str, key: str, compat: Compat, tally: _Tally
) -> None:
    """Check all answers of a row, and count the verdicts."""
    where = f"{file}: row {key}"
    ids, kwargs = _read_instructions(row, where)
    answers = [
        (answer, _make_rollout(answer, row, where))
        for answer in _read_answers(row, where, len(ids))
    ]
    for place, (name, arguments) in enumerate(zip(ids, kwargs, strict=True)):
        try:
            verifier, params = public_params(name, arguments)
            checked = verifier.check_parameters(params)
        except RubrankError:
            tally.unknown[name] += len(answers)
            continue
        for answer, rollout in answers:
            for mode in MODES:
                if answer.get(mode) is None:
                    continue
                published = bool(answer[mode][place])
                verdict = verifier.verify(rollout, checked, compat=compat, mode=mode)
                ours = None if verdict.value is None else verdict.value == verifier.domain.high
                tally.add(
                    Disagreement(
                        key, name, mode, published, ours, verdict.reason, answer.get("model")
                    )
                )


def _read_instructions(row: Mapping[str, Any], where: str) -> tuple[list[str], list[Any]]:
    """The ids of a row and their arguments, one for each."""
    ids = parse_json_cell(row.get("instruction_id_list"))
    if not isinstance(ids, list | tuple) or not all(isinstance(name, str) for name in ids):
        raise _row_error(
            where,
            "with a list of ids as `instruction_id_list`",
            f"the keys {', '.join(map(str, row))}",
        )
    kwargs = parse_json_cell(row.get("kwargs"))
    if not kwargs:
        for name in ids:
            if _takes_arguments(name):
                raise _row_error(where, f"with `kwargs`: {name} takes arguments", "none")
        kwargs = [{}] * len(ids)
    if not isinstance(kwargs, list | tuple) or len(kwargs) != len(ids):
        raise _row_error(
            where, f"with {len(ids)} `kwargs`, one for each id", shortened(repr(kwargs))
        )
    if not all(isinstance(arguments, Mapping | None) for arguments in kwargs):
        raise _row_error(where, "with objects {…} as `kwargs`", shortened(repr(kwargs)))
    return list(ids), list(kwargs)


def _takes_arguments(name: str) -> bool:
    """Whether an instruction has arguments; False for an unknown id."""
    try:
        verifier, _ = public_params(name, None)
    except RubrankError:
        return False
    return bool(set(verifier.parameters.model_fields) - {"lang"})  # the language is part of the id


def _row_error(where: str, allowed: str, got: str) -> InvalidInput:
    return InvalidInput(where, "the row", allowed, got, _SHAPES)


def _has_response(answer: Any) -> bool:
    return isinstance(answer, Mapping) and "response" in answer


def _read_answers(row: Mapping[str, Any], where: str, ids: int) -> list[Mapping[str, Any]]:
    answers = parse_json_cell(row.get("responses", [row]))
    if not isinstance(answers, list | tuple) or not all(
        _has_response(answer) for answer in answers
    ):
        raise _row_error(
            where, "with a `response` or `responses`", f"the keys {', '.join(map(str, row))}"
        )
    for answer in answers:
        for mode in MODES:
            verdicts = answer.get(mode)
            if verdicts is not None and (
                not isinstance(verdicts, list | tuple) or len(verdicts) != ids
            ):
                raise _row_error(
                    where,
                    f"with {ids} verdicts as `{mode}`, one for each id",
                    shortened(repr(verdicts)),
                )
    return list(answers)


def _make_rollout(answer: Mapping[str, Any], row: Mapping[str, Any], where: str) -> Rollout:
    # The published verdicts are about the whole response: nothing in it is taken for reasoning.
    data = {"prompt": row.get("prompt", ""), "response": answer["response"] or "", "reasoning": ""}
    return to_rollout(data, where)
