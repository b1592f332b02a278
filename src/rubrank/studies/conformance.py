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
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, Self, get_args

from pydantic import BaseModel, model_validator

from rubrank._plain import validate_model
from rubrank.errors import InvalidInput, RubrankError, UnknownName, only_our_errors
from rubrank.rollouts.rollout import make_rollout
from rubrank.rollouts.shapes import parse_json_cell
from rubrank.tables.sources import read_rows
from rubrank.verifiers.instruction_items import public_params
from rubrank.verifiers.verifier import Compat, Mode

MODES: tuple[Mode, Mode] = ("strict", "loose")


class Answer(BaseModel):
    """A response with its published verdicts, one for each instruction; None: not published."""

    response: str | None
    strict: tuple[bool, ...] | None = None
    loose: tuple[bool, ...] | None = None
    model: str | None = None


class PublishedRow(BaseModel):
    """A prompt with its instructions and answers. All other keys are ignored."""

    prompt: Any = ""
    instruction_id_list: tuple[str, ...]
    kwargs: tuple[dict[str, Any] | None, ...] = ()
    responses: tuple[Answer, ...]

    @model_validator(mode="before")
    @classmethod
    def _read_cells(cls, data: Any) -> Any:
        """Parse cells that hold JSON, as in CSV files. A row without `responses` is itself the only answer."""
        cells = {name: parse_json_cell(data.get(name)) for name in cls.model_fields if name in data}
        return {
            **cells,
            "kwargs": cells.get("kwargs") or (),
            "responses": cells.get("responses", [data]),
        }

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        """Every instruction needs its arguments, if it takes any, and its verdict in every list of verdicts."""
        count = len(self.instruction_id_list)
        verdicts = [getattr(answer, mode) for answer in self.responses for mode in MODES]
        lengths = {len(values) for values in verdicts if values is not None}
        # Without arguments the verifiers would decide by their defaults, and silently disagree.
        if self.kwargs or any(map(_takes_arguments, self.instruction_id_list)):
            lengths.add(len(self.kwargs))
        if lengths - {count}:
            allowed = f"kwargs and verdicts for each of {count} ids"
            raise InvalidInput("row", "lists", allowed, f"lists of {sorted(lengths)}")
        return self


def _takes_arguments(name: str) -> bool:
    """Return whether the verifier of an instruction has parameters; the language is part of the id."""
    try:
        verifier, _ = public_params(name, None)
    except RubrankError:
        return False  # an unknown id is counted later
    return bool(set(verifier.parameters.model_fields) - {"lang"})


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
        return asdict(self)


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
        published_row = validate_model(PublishedRow, row, where, "conformance")
        ids = published_row.instruction_id_list
        answers = published_row.responses
        rollouts = []
        for answer in answers:
            # The published verdicts are about the whole response, so no part of it is read as reasoning.
            data = {"response": answer.response or "", "reasoning": ""}
            rollouts.append(make_rollout({"prompt": published_row.prompt, **data}, where))
        for place, (name, arguments) in enumerate(zip_longest(ids, published_row.kwargs)):
            try:
                verifier, params = public_params(name, arguments)
                checked = verifier.check_parameters(params)
            except RubrankError:  # an unknown id, or arguments that its verifier does not take
                unknown[name] += len(answers)
                continue
            for answer, rollout in zip(answers, rollouts, strict=True):
                for mode in MODES:
                    published = getattr(answer, mode)
                    if published is None:
                        continue
                    verdict = verifier.verify(rollout, checked, compat=compat, mode=mode)
                    ours = None if verdict.value is None else verdict.value == verifier.domain.high
                    compared = ComparedVerdict(
                        key, name, mode, published[place], ours, verdict.reason, answer.model
                    )
                    verdicts.append(compared)
    if not verdicts and not unknown:
        allowed = "rows with published verdicts"
        raise InvalidInput(
            str(path), "the file", allowed, "none", "See `rubrank help conformance`."
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
