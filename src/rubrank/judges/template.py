"""Prompts of the user: the messages of a judge, with slots that each call fills.

    prompt: my_judge.txt                         in the file of judges, a file next to it; or the text of several lines

    [system]
    You grade answers of our help desk.
    {rules}
    {criteria}
    {reply}
    [user]
    {conversation}
    {reference}
    {response}

Without the two headers the whole file is the user message. `{{name}}` gives the text `{name}`; braces around anything
but a name are left as they are. Unknown slots, and missing slots without which nothing could be judged, are errors when
the judge is loaded. The file is read once; its text is part of every call, and of its key in the cache.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

from rubrank._files import read_text, require_file
from rubrank._plain import Strict, shorten
from rubrank.errors import InvalidInput, UnknownName

SLOTS: dict[str, str] = {
    "rules": "how to judge and how data is marked, in the library's words",
    "task": "the task in a sentence, in the library's words",
    "criteria": "the criterion or criteria: question, what counts, what the values mean",
    "question": "the question alone (one criterion per call)",
    "anchors": "what the values mean, a line each (one criterion per call)",
    "name": "the criterion's name (one criterion per call)",
    "examples": "few-shot examples, if the judge has some",
    "reply": "the form of the reply",
    "conversation": "the messages before the response",
    "reference": "reference material, if there is any",
    "response": "the response (kinds absolute and batched)",
    "responses": "all responses, marked A and B or numbered (kinds pairwise and listwise)",
    "response_a": "the first response (kind pairwise)",
    "response_b": "the second response (kind pairwise)",
}
"""Every slot, and what fills it."""

_OF_ONE_CRITERION = {"question", "anchors", "name"}
_OF_ALL_KINDS = {"rules", "task", "criteria", "examples", "reply", "conversation", "reference"}
_OF_KIND: dict[str, set[str]] = {
    "absolute": _OF_ALL_KINDS | _OF_ONE_CRITERION | {"response"},
    "batched": _OF_ALL_KINDS | {"response"},
    "pairwise": _OF_ALL_KINDS | _OF_ONE_CRITERION | {"responses", "response_a", "response_b"},
    "listwise": _OF_ALL_KINDS | _OF_ONE_CRITERION | {"responses"},
}
# For each kind the slots without which nothing can be judged; of each inner tuple one slot is enough. For example, a
# pairwise template needs {criteria} or {question}, and {responses} or both {response_a} and {response_b}.
_NEEDED: dict[str, tuple[tuple[str, ...], ...]] = {
    "absolute": (("response",), ("criteria", "question")),
    "batched": (("response",), ("criteria",), ("reply",)),
    "pairwise": (
        ("responses", "response_a"),
        ("responses", "response_b"),
        ("criteria", "question"),
    ),
    "listwise": (("responses",), ("criteria", "question")),
}

# "{{name}}", which stands for the text "{name}", or the slot "{name}". "[0-9]{4}" has none: slots begin with no digit.
_SLOT = re.compile(r"\{\{(\w+)\}\}|\{([^\W\d]\w*)\}")
# A line with "[system]" or "[user]". `split` gives [text before the headers, header, text, header, text].
_HEADER = re.compile(r"^\[(system|user)\][ \t]*$", re.MULTILINE)


class Template(Strict):
    """The text of a prompt, and where it came from."""

    text: str
    path: str = ""

    @classmethod
    def read(cls, source: Any, folder: Path, owner: str) -> Template:
        """Read a template: a path relative to `folder`, a text of several lines, or the dumped fields of one.

        owner: what the template belongs to, for errors.
        """
        if isinstance(source, Template):
            return source
        if isinstance(source, Mapping) and isinstance(source.get("text"), str):
            return cls(text=source["text"], path=str(source.get("path", "")))
        if not isinstance(source, str) or not source.strip():
            raise InvalidInput(
                owner, "prompt", allowed="the name of a text file", got=repr(source)[:80]
            )
        if "\n" in source.strip():
            return cls(text=source)
        path = folder / source
        remedy = "It is looked for beside the file of judges." if folder != Path() else ""
        require_file(path, owner=owner, what="prompt", remedy=remedy)
        return cls(text=read_text(path), path=str(path))

    def check(self, kind: str, owner: str) -> None:
        """Raise InvalidInput for slots that this kind of judge does not fill, and for missing slots that it needs."""
        where = f"prompt ({self.path})" if self.path else "prompt"
        allowed_slots = _OF_KIND.get(kind, set(SLOTS))  # a user's own kind may fill any slot
        for slot in self.slots:
            if slot not in allowed_slots:
                raise UnknownName.of(owner, f"{where}: slot", slot, allowed_slots)
        for choice in _NEEDED.get(kind, ()):
            if not set(choice) & set(self.slots):
                names = " or ".join(f"{{{name}}}" for name in choice)
                raise InvalidInput(
                    owner,
                    where,
                    allowed=f"a text with {names}",
                    got="none",
                    remedy=f"A judge of kind {kind} needs it.",
                )
        before, *pieces = _HEADER.split(self.text)
        headers = sorted(pieces[::2])
        got = ""
        if headers and before.strip():
            got = f"{shorten(before.strip(), 40)!r} before them"
        elif headers and headers not in (["user"], ["system", "user"]):
            got = ", ".join(headers)
        if got:
            allowed = "one [user] part and at most one [system] part, and no text before them"
            raise InvalidInput(owner, where, allowed, got)

    @cached_property
    def slots(self) -> tuple[str, ...]:
        """The slots in the text, in order."""
        return tuple(dict.fromkeys(match[2] for match in _SLOT.finditer(self.text) if match[2]))

    @cached_property
    def version(self) -> str:
        """A digest of the text; part of `Call.prompt_version`."""
        data = self.text.encode("utf-8", "replace")
        return f"template {blake2b(data, digest_size=6).hexdigest()}"

    def messages(self, values: Mapping[str, str]) -> list[dict[str, str]]:
        """Return the messages with all slots filled.

        This is one pass, so that a slot in the text of a value is not filled.
        """

        def fill(match: re.Match[str]) -> str:
            escaped, slot = match[1], match[2]
            return f"{{{escaped}}}" if escaped else values[slot]

        pieces = _HEADER.split(self.text)
        parts = dict(zip(pieces[1::2], pieces[2::2], strict=True))
        if not parts:
            parts = {"user": self.text}
        messages = []
        for role in ("system", "user"):
            if role in parts:
                messages.append({"role": role, "content": _SLOT.sub(fill, parts[role]).strip()})
        return messages
