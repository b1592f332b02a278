"""AReaL 1.0: a workflow that samples a group, and rewards it by a rubric.

    from rubrank.training.frameworks.areal import workflow_class

    Workflow = workflow_class()                                       a subclass of AReaL's RolloutWorkflow
    workflow = Workflow("reward.yaml", gconfig=config.gconfig, tokenizer=tokenizer, n=8)

AReaL runs an episode for a row of the dataset; this one samples `n` responses itself, and gives all of them back with
the rubric's rewards: shape (a). So AReaL's own `n_samples` must be 1, or each of its episodes would be a group. A row
has `messages` (or `prompt`), and may have `rubric` and what verifiers need. One about which nothing is known gets the
mean of its group. With `train=False` (the workflow of the evaluation) nothing is learnt.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.training.config import engine_of
from rubrank.training.engine import RewardEngine
from rubrank.training.queries import Completion, query_of, score_query, without_unknown
from rubrank.training.rollouts import end_token_ids, infer_finish_reason, normalize_finish_reason, token_opening_tag

_OWNER = "AReaL"


class RubricWorkflow:
    """Samples and rewards groups; `workflow_class` makes it one of AReaL's.

    n: responses of a prompt. template: options of the chat template, such as enable_thinking.
    request: makes what `engine.agenerate` takes of the prompt's tokens; by default AReaL's ModelRequest.
    """

    def __init__(
        self,
        rubrank: RewardEngine | str | Path | None = None,
        *,
        gconfig: Any,
        tokenizer: Any,
        n: int,
        train: bool = True,
        template: Mapping[str, Any] | None = None,
        request: Any = None,
    ) -> None:
        if n < 2:
            raise InvalidInput(_OWNER, "n", "2 or more: a group", str(n), "")
        self.rubrank, self.column = engine_of(rubrank, _OWNER)
        self.gconfig, self.tokenizer, self.n, self.train = gconfig, tokenizer, n, train
        self.template, self.request = dict(template or {}), request or self._request
        self._numbers = count()

    async def arun_episode(self, engine: Any, data: Mapping[str, Any]) -> dict[str, Any]:
        """All responses to a row of the dataset, as AReaL's tensors."""
        asked = data.get("messages") or data.get("prompt")
        if not asked:
            got = ", ".join(sorted(map(str, data))) or "nothing"
            raise InvalidInput(_OWNER, "row", "with messages or prompt", got, "Name the dataset's columns so.")
        ids = self._ids(asked)
        sampled = await asyncio.gather(*(engine.agenerate(self.request(ids)) for _ in range(self.n)))
        row = {name: value for name, value in data.items() if name not in ("messages", "prompt")}
        query = query_of(asked, row, rubric_column=self.column)
        opened = token_opening_tag(self.tokenizer, ids)
        said = [self._completion(one, opened) for one in sampled]
        result = await score_query(
            self.rubrank,
            query,
            said,
            step=next(self._numbers),
            train=self.train,
            where=_OWNER,
            tokenizer=self.tokenizer,
        )
        return tensors(sampled, without_unknown(result.flat()))

    def _ids(self, asked: Any) -> list[int]:
        if isinstance(asked, str):
            return list(self.tokenizer.encode(asked))
        found = self.tokenizer.apply_chat_template(asked, tokenize=True, add_generation_prompt=True, **self.template)
        return list(found["input_ids"] if hasattr(found, "keys") else found)  # a mapping since transformers 5

    def _completion(self, one: Any, opened: str | None) -> Completion:
        text = self.tokenizer.decode(one.output_tokens, skip_special_tokens=True)
        reason = normalize_finish_reason(getattr(one, "stop_reason", None)) or infer_finish_reason(
            one.output_tokens, end_token_ids(self.tokenizer), getattr(self.gconfig, "max_new_tokens", None)
        )
        return Completion(text, reason, one.output_tokens, opened=opened)

    def _request(self, ids: Sequence[int]) -> Any:
        from areal.api import ModelRequest  # type: ignore[import-not-found, import-untyped, unused-ignore]

        config = self.gconfig.new(n_samples=1)
        return ModelRequest(rid=uuid.uuid4().hex, input_ids=list(ids), gconfig=config, tokenizer=self.tokenizer)


def tensors(sampled: Sequence[Any], rewards: Sequence[float]) -> dict[str, Any]:
    """The responses of a group as AReaL trains on them: one row each, filled up at the end."""
    import torch

    rows = []
    for one in sampled:
        before, after = list(one.input_tokens), list(one.output_tokens)
        rows.append(
            {
                "input_ids": before + after,
                "loss_mask": [0] * len(before) + [1] * len(after),
                "logprobs": [0.0] * len(before) + list(one.output_logprobs),
                "versions": [-1] * len(before) + list(one.output_versions),
                "attention_mask": [True] * (len(before) + len(after)),
            }
        )
    longest = max(len(row["input_ids"]) for row in rows)
    kinds = {"logprobs": torch.float32, "attention_mask": torch.bool}
    found = {
        name: torch.tensor(
            [row[name] + [type(row[name][0])(0)] * (longest - len(row[name])) for row in rows],
            dtype=kinds.get(name, torch.int32),
        )
        for name in rows[0]
    }
    return {**found, "rewards": torch.tensor(list(rewards), dtype=torch.float32)}


def workflow_class() -> type:
    """`RubricWorkflow` as a subclass of AReaL's RolloutWorkflow."""
    try:
        from areal.api.workflow_api import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
            RolloutWorkflow,
        )
    except ImportError as error:
        raise InvalidInput(_OWNER, "package", "installed", str(error), "pip install areal==1.0.4") from error
    return type("RubricWorkflow", (RubricWorkflow, RolloutWorkflow), {"__module__": __name__})
