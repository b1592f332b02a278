"""Logs of Inspect: a sample is a group, its epochs are the responses, its scorers are criteria.

    log.eval                    a zip with header.json and samples/<id>_epoch_<n>.json
    log.json                    one object with `eval` and `samples`

The layout is the documented one (the EvalLog of `inspect_ai.log`); Inspect itself is not needed to read it. A score
is a number, a yes or no, or one of C, P, I, N (correct, partial, incorrect, no answer); a score of several parts is
one criterion for each. A sample that failed in the run has no response and is left out.
"""

from __future__ import annotations

import json
import math
import struct
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rubrank.errors import InvalidInput

GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""What Inspect's letters stand for."""
_ZSTD = 93  # the number of the compression in a zip
_LOCAL_HEADER = 30


class LogRow(dict[str, Any]):
    """A row that came from a log: the same sample in another log was answered in another run."""


def is_log(data: Any) -> bool:
    """Is it the content of a log in JSON?"""
    return isinstance(data, Mapping) and isinstance(data.get("eval"), Mapping) and "samples" in data


def log_rows(data: Mapping[str, Any], where: str) -> Iterator[dict[str, Any]]:
    """One row for each epoch of each sample."""
    samples = data.get("samples") or ()
    for sample in samples if isinstance(samples, list) else ():
        if not isinstance(sample, Mapping):
            raise InvalidInput(where, "samples", "objects {…}", type(sample).__name__, "Write the log again.")
        if not _failed(sample):
            yield _row(sample)


def zipped_log_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The same from a file .eval, one sample in memory at a time."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [info for info in archive.infolist() if info.filename.startswith("samples/")]
            for info in sorted(names, key=lambda info: _order(info.filename)):
                sample = json.loads(_member(archive, info, path))
                if not _failed(sample):
                    yield _row(sample)
    except (zipfile.BadZipFile, ValueError, KeyError, AttributeError, OSError, struct.error) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(str(path), "the file", "a log of Inspect", str(error), "Copy it again.") from None


def _order(name: str) -> tuple[str, int]:
    """By sample, then by epoch."""
    sample, _, epoch = name.removesuffix(".json").rpartition("_epoch_")
    return sample, int(epoch) if epoch.isdigit() else 0


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> bytes:
    if info.compress_type != _ZSTD:
        return archive.read(info)
    from rubrank._files import zstandard_for

    with path.open("rb") as file:
        file.seek(info.header_offset)
        header = file.read(_LOCAL_HEADER)
        name, extra = struct.unpack("<HH", header[26:30])
        file.seek(name + extra, 1)
        packed = file.read(info.compress_size)
    return bytes(zstandard_for(path).ZstdDecompressor().decompressobj().decompress(packed))


def _failed(sample: Mapping[str, Any]) -> bool:
    output = sample.get("output") or {}
    return bool(sample.get("error")) and not (isinstance(output, Mapping) and output.get("choices"))


def _row(sample: Mapping[str, Any]) -> LogRow:
    output = sample.get("output") or {}
    choice = (output.get("choices") or [{}])[0]
    scores, reasons = _scores(sample.get("scores") or {})
    return LogRow(
        group=str(sample.get("id")),
        rollout=sample.get("epoch", 1),
        prompt=sample.get("input"),
        response=_response(sample, choice, output),
        finish_reason=choice.get("stop_reason"),
        scores=scores,
        reasons=reasons,
        metadata={**_given(sample, "target"), **(sample.get("metadata") or {}), **_given(output, "model")},
    )


def _given(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {} if data.get(name) in (None, "") else {name: data[name]}


def _response(sample: Mapping[str, Any], choice: Mapping[str, Any], output: Mapping[str, Any]) -> Any:
    """Everything that the model said after the input: with tool calls if there are any, else its last text."""
    messages = [m for m in sample.get("messages") or () if isinstance(m, Mapping)]
    said = [m for m in messages if m.get("source") != "input" and m.get("role") in ("assistant", "tool")]
    if any(m.get("tool_calls") for m in said):
        return [_message(m) for m in said]
    message = choice.get("message") or {}
    return output.get("completion") or message.get("content") or ""


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    calls = [
        {"id": c.get("id"), "name": c.get("function"), "arguments": c.get("arguments")}
        for c in message.get("tool_calls") or ()
    ]
    kept = {name: message[name] for name in ("role", "content", "tool_call_id", "error") if message.get(name)}
    return {**kept, **({"tool_calls": calls} if calls else {})}


def _scores(found: Mapping[str, Any]) -> tuple[dict[str, float | None], dict[str, str]]:
    """The value of every scorer, or of every part of it, and why."""
    scores: dict[str, float | None] = {}
    reasons: dict[str, str] = {}
    for scorer, score in found.items():
        value = score.get("value") if isinstance(score, Mapping) else score
        reason = str(score.get("explanation") or "") if isinstance(score, Mapping) else ""
        parts = {f"{scorer}.{key}": v for key, v in value.items()} if isinstance(value, Mapping) else {scorer: value}
        for name, part in parts.items():
            scores[name] = _number(part)
            reasons[name] = reason if scores[name] is not None else f"no number: {part!r:.80}"
    return scores, reasons


def _number(value: Any) -> float | None:
    if isinstance(value, str) and value.strip().upper() in GRADES:
        return GRADES[value.strip().upper()]
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
