"""AReaL 1.0: a workflow that samples a group and rewards it by a rubric.

    from rubrank.training.frameworks.areal import workflow_class

    Workflow = workflow_class()                                       a subclass of AReaL's RolloutWorkflow
    workflow = Workflow("reward.yaml", gconfig=config.gconfig, tokenizer=tokenizer, n=8)

Input. AReaL calls `arun_episode(engine, data)` once per row of the dataset. A row has `messages` (or `prompt`), and may
have `rubric` and what verifiers need. This workflow samples `n` responses itself, because AReaL's own `n_samples` would
make each response a separate episode, and so a separate group; it must be 1.

Output. AReaL gets all responses as tensors, with the rubric's rewards. A response without any score gets the mean of
its group. With `train=False` (the workflow of the evaluation) no rule learns.

Tested with AReaL 1.0.4 installed: a subclass of its `RolloutWorkflow`, with a scripted engine. Its own engines were not
run.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from rubrank.training.config import EngineSource, load_engine
from rubrank.training.queries import make_query, read_token_completion, score_query

_OWNER = "AReaL"


class RubricWorkflow:
    """Samples and rewards groups; `workflow_class` makes it a subclass of AReaL's workflow.

    rubrank: an engine, or the path of a configuration; None: RUBRANK_CONFIG.
    gconfig: AReaL's options of generation. n: responses per prompt. train: False for an evaluation.
    template: options of the chat template, such as enable_thinking.
    request: a function that makes the argument of `engine.agenerate` from the prompt's tokens; by default it makes
        AReaL's ModelRequest.
    """

    def __init__(
        self,
        rubrank: EngineSource = None,
        *,
        gconfig: Any,
        tokenizer: Any,
        n: int,
        train: bool = True,
        template: Mapping[str, Any] | None = None,
        request: Any = None,
    ) -> None:
        self.rubrank, self.rubric_column = load_engine(rubrank, _OWNER)
        self.gconfig = gconfig
        self.tokenizer = tokenizer
        self.n = n
        self.train = train
        self.template = dict(template or {})
        self.request = request or self._make_request
        self._episodes = count()

    async def arun_episode(self, engine: Any, data: Mapping[str, Any]) -> dict[str, Any]:
        """Sample and reward all responses to a row; returns AReaL's tensors. engine: AReaL's, which samples."""
        prompt = data.get("messages") or data["prompt"]
        prompt_ids = self.encode_prompt(prompt)
        responses = await asyncio.gather(
            *(engine.agenerate(self.request(prompt_ids)) for _ in range(self.n))
        )
        row = {name: value for name, value in data.items() if name not in ("messages", "prompt")}
        completions = [
            read_token_completion(
                self.tokenizer,
                prompt_ids,
                response.output_tokens,
                getattr(response, "stop_reason", None),
                getattr(self.gconfig, "max_new_tokens", None),
            )
            for response in responses
        ]
        result = await score_query(
            self.rubrank,
            make_query(prompt, row, rubric_column=self.rubric_column),
            completions,
            step=next(self._episodes),
            train=self.train,
            where=_OWNER,
            tokenizer=self.tokenizer,
        )
        return to_tensors(responses, result.flat(means=True))

    def encode_prompt(self, prompt: Any) -> list[int]:
        """Return the tokens of a prompt: a text as it is, messages with the chat template."""
        if isinstance(prompt, str):
            return list(self.tokenizer.encode(prompt))
        encoded = self.tokenizer.apply_chat_template(
            prompt, tokenize=True, add_generation_prompt=True, **self.template
        )
        # transformers 5 returns a mapping, transformers 4 the tokens.
        return list(encoded["input_ids"] if hasattr(encoded, "keys") else encoded)

    def _make_request(self, prompt_ids: Sequence[int]) -> Any:
        """Return AReaL's request for one response."""
        from areal.api import ModelRequest  # type: ignore[import-not-found, import-untyped, unused-ignore]

        config = self.gconfig.new(n_samples=1)
        return ModelRequest(
            rid=uuid.uuid4().hex,
            input_ids=list(prompt_ids),
            gconfig=config,
            tokenizer=self.tokenizer,
        )


def to_tensors(responses: Sequence[Any], rewards: Sequence[float]) -> dict[str, Any]:
    """Return the responses of a group as AReaL trains on them: one row each, padded at the end."""
    import torch

    rows = []
    for response in responses:
        prompt_ids = list(response.input_tokens)
        response_ids = list(response.output_tokens)
        rows.append(
            {
                "input_ids": prompt_ids + response_ids,
                "loss_mask": [0] * len(prompt_ids) + [1] * len(response_ids),
                "logprobs": [0.0] * len(prompt_ids) + list(response.output_logprobs),
                "versions": [-1] * len(prompt_ids) + list(response.output_versions),
                "attention_mask": [True] * (len(prompt_ids) + len(response_ids)),
            }
        )
    longest = max(len(row["input_ids"]) for row in rows)
    dtypes = {"logprobs": torch.float32, "attention_mask": torch.bool}
    tensors = {}
    for name in rows[0]:
        padded = [row[name] + [0] * (longest - len(row[name])) for row in rows]
        tensors[name] = torch.tensor(padded, dtype=dtypes.get(name, torch.int32))
    tensors["rewards"] = torch.tensor(list(rewards), dtype=torch.float32)
    return tensors


def workflow_class() -> type:
    """Return `RubricWorkflow` as a subclass of AReaL's RolloutWorkflow."""
    from areal.api.workflow_api import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
        RolloutWorkflow,
    )

    return type("RubricWorkflow", (RubricWorkflow, RolloutWorkflow), {"__module__": __name__})
