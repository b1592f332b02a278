"""Measure how often rubrank's verdicts agree with published ones: `rubrank conformance FILE`.

    result = measure("en_groups.jsonl.gz")
    result.strict, result.per_id["en:punctuation:no_comma"].strict        (0.996, 1.0)

A file has a prompt per line (JSON Lines, plain or gzip) with `instruction_id_list` and `kwargs`, and its answers in one
of two shapes: `responses`, a list of {response, strict: [...], loose: [...]}, or these three keys in the row itself.
The verdicts are in the order of the instructions. Instructions that no verifier knows are counted in `unknown`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from rubrank._plain import shorten
from rubrank.errors import InvalidInput, RubrankError, UnknownName, only_our_errors
from rubrank.rollouts.messages import parse_json_cell
from rubrank.rollouts.rollout import make_rollout
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
class ComparedVerdict:
    """One of our verdicts beside the published one; `ours` is None if the verifier could not decide."""

    key: str
    id: str
    mode: Mode
    published: bool
    ours: bool | None
    reason: str
    model: str | None = None

    @property
    def is_equal(self) -> bool:
        """Are both verdicts the same?"""
        return self.ours is self.published


@dataclass(frozen=True)
class Conformance:
    """The agreement of a whole file, of each instruction id, and every disagreement."""

    strict: float | None
    loose: float | None
    n: int
    per_id: Mapping[str, VerdictAgreement]
    disagreements: tuple[ComparedVerdict, ...]
    unknown: Mapping[str, int] = field(default_factory=dict)
    """Id of an instruction without a usable verifier → how many answers were not compared for that reason."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data for JSON."""
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
    """Check every answer of the file and compare with the published verdicts.

    Raises InvalidInput for a row of another shape, and for a file without published verdicts.
    """
    if compat not in get_args(Compat):
        raise UnknownName.of("measure", "compat", compat, get_args(Compat))
    verdicts: list[ComparedVerdict] = []
    unknown: Counter[str] = Counter()
    for number, row in enumerate(read_rows(path), start=1):
        key = str(row.get("key", number))
        where = f"{path}: row {key}"
        ids, kwargs = _read_instructions(row, where)
        answers = _read_answers(row, where, len(ids))
        rollouts = []
        for answer in answers:
            # The published verdicts are about the whole response: nothing in it is taken for reasoning.
            data = {"response": answer["response"] or "", "reasoning": ""}
            rollouts.append(make_rollout({"prompt": row.get("prompt", ""), **data}, where))
        for place, (name, arguments) in enumerate(zip(ids, kwargs, strict=True)):
            try:
                verifier, params = public_params(name, arguments)
                checked = verifier.check_parameters(params)
            except RubrankError:  # an unknown id, or arguments that its verifier does not take
                unknown[name] += len(answers)
                continue
            for answer, rollout in zip(answers, rollouts, strict=True):
                for mode in MODES:
                    if answer.get(mode) is None:
                        continue
                    published = bool(answer[mode][place])
                    verdict = verifier.verify(rollout, checked, compat=compat, mode=mode)
                    ours = None if verdict.value is None else verdict.value == verifier.domain.high
                    model = answer.get("model")
                    verdicts.append(
                        ComparedVerdict(key, name, mode, published, ours, verdict.reason, model)
                    )
    if not verdicts and not unknown:
        raise InvalidInput(
            str(path),
            "the file",
            allowed="rows with published verdicts",
            got="none",
            remedy=_SHAPES,
        )

    by_id: dict[str, list[ComparedVerdict]] = {}
    for compared in verdicts:
        by_id.setdefault(compared.id, []).append(compared)
    total = _measure_agreement(verdicts)
    return Conformance(
        strict=total.strict,
        loose=total.loose,
        n=total.n,
        per_id={name: _measure_agreement(by_id[name]) for name in sorted(by_id)},
        disagreements=tuple(compared for compared in verdicts if not compared.is_equal),
        unknown=dict(sorted(unknown.items())),
    )


def _measure_agreement(verdicts: Sequence[ComparedVerdict]) -> VerdictAgreement:
    """Return the shares of equal verdicts; n is the number of answers of the mode that has more."""
    shares: list[float | None] = []
    counts = []
    for mode in MODES:
        are_equal = [compared.is_equal for compared in verdicts if compared.mode == mode]
        shares.append(sum(are_equal) / len(are_equal) if are_equal else None)
        counts.append(len(are_equal))
    strict, loose = shares
    return VerdictAgreement(strict, loose, max(counts))


def _read_instructions(row: Mapping[str, Any], where: str) -> tuple[list[str], list[Any]]:
    """Return the ids of a row and their arguments, one for each; raises InvalidInput for another shape."""
    ids = parse_json_cell(row.get("instruction_id_list"))
    if not isinstance(ids, list | tuple) or not all(isinstance(name, str) for name in ids):
        raise _make_row_error(
            where,
            allowed="with a list of ids as `instruction_id_list`",
            got=f"the keys {', '.join(map(str, row))}",
        )
    kwargs = parse_json_cell(row.get("kwargs"))
    if not kwargs:
        # Without arguments the verifiers would decide by their defaults, and silently disagree.
        for name in ids:
            try:
                verifier, _ = public_params(name, None)
            except RubrankError:
                continue  # an unknown id is counted later
            parameters = set(verifier.parameters.model_fields) - {"lang"}  # the id has the language
            if parameters:
                raise _make_row_error(
                    where, allowed=f"with `kwargs`: {name} takes arguments", got="none"
                )
        kwargs = [{}] * len(ids)
    if not isinstance(kwargs, list | tuple) or len(kwargs) != len(ids):
        raise _make_row_error(
            where,
            allowed=f"with {len(ids)} `kwargs`, one for each id",
            got=shorten(repr(kwargs)),
        )
    if not all(isinstance(arguments, Mapping | None) for arguments in kwargs):
        raise _make_row_error(
            where, allowed="with objects {…} as `kwargs`", got=shorten(repr(kwargs))
        )
    return list(ids), list(kwargs)


def _read_answers(row: Mapping[str, Any], where: str, id_count: int) -> list[Mapping[str, Any]]:
    """Return the answers of a row, each with a response.

    Raises InvalidInput if there are none, or if an answer has verdicts of a mode, but not one for each id.
    """
    answers = parse_json_cell(row.get("responses", [row]))
    is_list = isinstance(answers, list | tuple)
    if not is_list or not all(
        isinstance(answer, Mapping) and "response" in answer for answer in answers
    ):
        raise _make_row_error(
            where,
            allowed="with a `response` or `responses`",
            got=f"the keys {', '.join(map(str, row))}",
        )
    for answer in answers:
        for mode in MODES:
            verdicts = answer.get(mode)
            if verdicts is None:
                continue
            if not isinstance(verdicts, list | tuple) or len(verdicts) != id_count:
                raise _make_row_error(
                    where,
                    allowed=f"with {id_count} verdicts as `{mode}`, one for each id",
                    got=shorten(repr(verdicts)),
                )
    return list(answers)


def _make_row_error(where: str, allowed: str, got: str) -> InvalidInput:
    return InvalidInput(where, "the row", allowed=allowed, got=got, remedy=_SHAPES)
