"""Requests that wait to be sent, in files as the batch API takes them: never more in a file than a server allows.

outbox = Outbox(folder, endpoint)
outbox.add(key, purpose, body)
outbox.files                            Outgoing(path, {key: purpose}, {key: what the request asks for}), …
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from rubrank.errors import InvalidInput
from rubrank.judges.judge import Endpoint

_MEGABYTE = 1_000_000


@dataclass
class Outgoing:
    """One file of requests."""

    path: Path
    token: str
    purposes: dict[bytes, str] = field(default_factory=dict)
    size: int = 0


class Outbox:
    """Of one endpoint."""

    def __init__(self, folder: Path, endpoint: Endpoint) -> None:
        self._folder, self.endpoint = folder, endpoint
        self.files: list[Outgoing] = []

    def add(self, key: bytes, purpose: str, body: Mapping[str, Any]) -> None:
        """One more request."""
        request = {"custom_id": key.hex(), "method": "POST", "url": "/v1/chat/completions", "body": body}
        line = json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"
        limits = self.endpoint.batch
        room = int(limits.megabytes * _MEGABYTE)
        if len(line) > room:
            got = f"one of {len(line) / _MEGABYTE:.1f} MB"
            raise InvalidInput("grade", "--batch", f"requests of at most {limits.megabytes:g} MB", got, "")
        last = self.files[-1] if self.files else None
        if last is None or len(last.purposes) >= limits.requests or last.size + len(line) > room:
            token = uuid4().hex
            last = Outgoing(self._folder / f"rubrank-{token}.jsonl", token)
            self.files.append(last)
        with last.path.open("ab") as file:
            file.write(line)
        last.purposes[key] = purpose
        last.size += len(line)
