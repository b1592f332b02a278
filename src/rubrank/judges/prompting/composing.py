"""The parts of a call put together: in the library's order, data first, or where a template has its slots.

question_first      system: rules, task, criteria, reply, examples     user: conversation, reference, response, end
data_first          system: rules, task     user: conversation, reference, response, criteria, examples, reply, end
a template          as its slots say
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rubrank._plain import shortened
from rubrank.judges.judge import Call, Order
from rubrank.judges.prompting.fence import defuse
from rubrank.judges.prompting.prompt_files import Prompt, PromptLanguage, load_prompt
from rubrank.judges.template import SLOTS, Template


@dataclass(frozen=True)
class PromptParts:
    """All that a call is made of, in words."""

    language: PromptLanguage
    kind: str
    prompts: Sequence[Prompt]
    task: str
    criteria: Sequence[str]
    reply: str
    examples: str
    conversation: str
    reference: str
    responses: Mapping[str, str]
    """By slot; the first holds all of them."""
    end: str
    single: Mapping[str, str] = field(default_factory=dict)
    """Slots that only a call about one criterion fills."""

    def call(self, schema: Mapping[str, Any], about: str, order: Order, template: Template | None) -> Call:
        """The call."""
        made = self._of_template(template) if template is not None else self._messages(order)
        messages = tuple({"role": one["role"], "content": defuse(one["content"])} for one in made)
        data = defuse(_joined([self.conversation, self.reference, next(iter(self.responses.values()))]))
        purpose = f"{shortened(about, 80)} ({self.kind})"
        return Call(messages, schema, self._version(order, template), purpose=purpose, data=data)

    def _messages(self, order: Order) -> list[dict[str, str]]:
        asked = [*self.criteria, self.reply, self.examples]
        data = [self.conversation, self.reference, next(iter(self.responses.values()))]
        first = order == "question_first"
        system = [self._rules, self.task, *(asked if first else [])]
        user = [*data, *([] if first else [*self.criteria, self.examples, self.reply]), self.end]
        return [{"role": "system", "content": _joined(system)}, {"role": "user", "content": _joined(user)}]

    def _of_template(self, template: Template) -> list[dict[str, str]]:
        own = {
            "rules": self._rules,
            "task": self.task,
            "criteria": _joined(self.criteria),
            "examples": self.examples,
            "reply": self.reply,
            "conversation": self.conversation,
            "reference": self.reference,
        }
        return template.messages({**dict.fromkeys(SLOTS, ""), **own, **self.responses, **self.single})

    @property
    def _rules(self) -> str:
        common = load_prompt("_common", self.language)
        return f"{common['role']}\n{common['data']}"

    def _version(self, order: Order, template: Template | None) -> str:
        """Versions of every file that the call is made of: "absolute-en common 1, absolute 1, Verbosity 2"."""
        files = [load_prompt("_common", self.language), load_prompt(f"_{self.kind}", self.language), *self.prompts]
        versions = [*dict.fromkeys(f"{file.name.strip('_')} {file.version}" for file in files)]
        if template is not None:
            versions.append(template.version)
        elif order == "data_first":
            versions.append("data first")
        return f"{self.kind}-{self.language} {', '.join(versions)}"


def _joined(parts: Sequence[str]) -> str:
    return "\n\n".join(filter(None, parts))
