"""Read the logs of Inspect: a sample is a group, its epochs are the responses, its scorers are criteria.

    log.eval                    a zip with header.json and samples/<id>_epoch_<n>.json
    log.json                    one object with `eval` and `samples`

The layout is that of `inspect_ai.log.EvalLog`; Inspect itself is not needed to read it. A score is a number, true or
false, or one of C, P, I, N (correct, partial, incorrect, no answer); a score with several parts becomes one criterion
per part. A sample that failed in the run has no response and is left out.
"""

from __future__ import annotations

import json
import math
import struct
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rubrank._files import import_zstandard
from rubrank.errors import InvalidInput

GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""The scores of Inspect's letters."""
_ZSTD_METHOD = 93  # a compression method that zipfile does not support
_LOCAL_HEADER_BYTES = 30  # before the name and the extra field of a member


class LogRow(dict[str, Any]):
    """A row of a log. Has its own type, because the same sample in two logs means two groups."""


def is_log(data: Any) -> bool:
    """Is it the parsed content of a log in JSON?"""
    return isinstance(data, Mapping) and isinstance(data.get("eval"), Mapping) and "samples" in data


def read_json_log(data: Mapping[str, Any], where: str) -> Iterator[LogRow]:
    """Yield one row for each epoch of each sample of a log in JSON."""
    yield from _make_rows(data.get("samples") or (), where)


def read_zipped_log(path: Path) -> Iterator[LogRow]:
    """Yield one row for each epoch of each sample of a .eval file, one sample in memory at a time."""
    yield from _make_rows(_read_samples(path), str(path))


def _make_rows(samples: Iterable[Any], where: str) -> Iterator[LogRow]:
    """Yield the samples as rows, with the names that tables use; raises InvalidInput for damage or another layout.

    A sample that ended with an error, without a response, is left out.
    """
    try:
        for sample in samples:
            output = sample.get("output") or {}
            choices = output.get("choices") or []
            if sample.get("error") and not choices:
                continue
            choice = choices[0] if choices else {}
            scores, reasons = _read_scores(sample.get("scores") or {})
            metadata: dict[str, Any] = {}
            if sample.get("target") not in (None, ""):
                metadata["target"] = sample["target"]
            metadata |= sample.get("metadata") or {}
            if output.get("model") not in (None, ""):
                metadata["model"] = output["model"]
            yield LogRow(
                group=str(sample.get("id")),
                rollout=sample.get("epoch", 1),
                prompt=sample.get("input"),
                response=_read_response(sample, choice, output),
                finish_reason=choice.get("stop_reason"),
                scores=scores,
                reasons=reasons,
                metadata=metadata,
            )
    except InvalidInput:
        raise  # zstandard is not installed
    except (
        zipfile.BadZipFile,
        struct.error,
        OSError,
        # What a sample of another layout causes.
        AttributeError,
        TypeError,
        ValueError,
        LookupError,
    ) as error:
        remedy = "Copy it again."
        raise InvalidInput(where, "the file", "a log of Inspect", str(error), remedy) from None


def _read_samples(path: Path) -> Iterator[Any]:
    """Yield the samples of a .eval file, sorted by id and epoch."""
    with zipfile.ZipFile(path) as archive:
        members = [info for info in archive.infolist() if info.filename.startswith("samples/")]
        for info in sorted(members, key=_get_sample_and_epoch):
            if info.compress_type != _ZSTD_METHOD:
                yield json.loads(archive.read(info))
                continue
            # A member is a fixed header, whose last two numbers are the lengths of the name and the extra field; then
            # these two, and then the compressed data.
            with path.open("rb") as file:
                file.seek(info.header_offset)
                header = file.read(_LOCAL_HEADER_BYTES)
                name_length, extra_length = struct.unpack("<HH", header[26:30])
                file.seek(name_length + extra_length, 1)
                packed = file.read(info.compress_size)
            decompressor = import_zstandard(path).ZstdDecompressor().decompressobj()
            yield json.loads(decompressor.decompress(packed))


def _get_sample_and_epoch(member: zipfile.ZipInfo) -> tuple[str, int]:
    """Return the sort key of samples/<id>_epoch_<n>.json, so that epoch 10 comes after epoch 9."""
    sample, _, epoch = member.filename.removesuffix(".json").rpartition("_epoch_")
    return sample, int(epoch) if epoch.isdigit() else 0


def _read_response(
    sample: Mapping[str, Any], choice: Mapping[str, Any], output: Mapping[str, Any]
) -> Any:
    """Return all messages after the input if tools were called, else the last text."""
    replies = []
    for message in sample.get("messages") or ():
        if not isinstance(message, Mapping) or message.get("source") == "input":
            continue
        if message.get("role") in ("assistant", "tool"):
            replies.append(message)
    if not any(message.get("tool_calls") for message in replies):
        last = choice.get("message") or {}
        return output.get("completion") or last.get("content") or ""
    converted_messages = []
    for message in replies:
        names = ("role", "content", "tool_call_id", "error")
        converted = {name: message[name] for name in names if message.get(name)}
        if message.get("tool_calls"):
            converted["tool_calls"] = [
                {
                    "id": call.get("id"),
                    "name": call.get("function"),
                    "arguments": call.get("arguments"),
                }
                for call in message["tool_calls"]
            ]
        converted_messages.append(converted)
    return converted_messages


def _read_scores(scorers: Mapping[str, Any]) -> tuple[dict[str, float | None], dict[str, str]]:
    """Return the scores and the reasons by criterion: one for each scorer, or for each part of its value."""
    scores: dict[str, float | None] = {}
    reasons: dict[str, str] = {}
    for scorer, score in scorers.items():
        value = score
        reason = ""
        if isinstance(score, Mapping):
            value = score.get("value")
            reason = str(score.get("explanation") or "")
        parts = {scorer: value}
        if isinstance(value, Mapping):
            parts = {f"{scorer}.{key}": inner for key, inner in value.items()}
        for name, part in parts.items():
            if isinstance(part, str):
                part = GRADES.get(part.strip().upper(), part)
            try:
                number = float(part)
            except (TypeError, ValueError):
                number = math.nan
            scores[name] = number if math.isfinite(number) else None
            reasons[name] = reason if scores[name] is not None else f"no number: {part!r:.80}"
    return scores, reasons
