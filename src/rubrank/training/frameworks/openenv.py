"""OpenEnv 0.10: a rubric as the rubric of an environment.

    from rubrank.training.frameworks.openenv import make_rubric

    class MyEnvironment(Environment):
        def __init__(self):
            super().__init__(rubric=make_rubric("reward.yaml", read=lambda action, observation: {
                "prompt": observation.metadata["question"], "response": action.message}))

Input. OpenEnv calls the rubric of an environment with one action of one episode, and its observation. `read(action,
observation)` returns what is graded: `response`, `prompt`, and optionally `rubric` and what verifiers need. By default
the response is the action's `message`, and the rest is the observation's `metadata`.

Output. OpenEnv gets one number. An environment does not know the other rollouts of its group, so the reward is the
gated weighted mean of the scores, from 0 to 1, instead of a ranking; judges that compare responses are refused. An
action for which every score is missing has no reward: `NoScore` is raised, and the trainer may repeat it. For rewards
that rank a group use the trainer's own adapter, and the environment for what happens between the turns.

Tested with OpenEnv 0.10.0 installed: its `Rubric`, with actions and observations. Its servers were not run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import numpy as np

from rubrank.errors import InvalidInput, RubrankError
from rubrank.judges import COMPARES
from rubrank.training.config import EngineSource, load_engine
from rubrank.training.metrics import compute_gated_means
from rubrank.training.queries import make_query, score_query

_OWNER = "OpenEnv"


class NoScore(RubrankError):  # noqa: N818
    """No criterion has a score for an action, because its judges failed."""


def make_rubric(
    source: EngineSource = None,
    read: Callable[[Any, Any], Mapping[str, Any]] | None = None,
) -> Any:
    """Return a `Rubric` of OpenEnv.

    source: an engine, or the path of a configuration; None: RUBRANK_CONFIG.
    read: (action, observation) → what is graded; see above.
    """
    from openenv.core.rubrics.base import Rubric  # type: ignore[import-not-found, unused-ignore]

    engine, rubric_column = load_engine(source, _OWNER)
    for judge in engine.judges.judges if engine.judges is not None else ():
        if judge.kind in COMPARES:
            raise InvalidInput(
                _OWNER,
                f"judge {judge.name!r}",
                allowed="of a kind that scores",
                got=judge.kind,
                remedy="An environment sees one response at a time.",
            )
    engine.alarm = None  # it needs training steps, and episodes of evaluations look the same here
    action_numbers = count()

    # Defined here, because its base class can be imported only where OpenEnv is installed.
    class RubrankRubric(Rubric):  # type: ignore[misc, unused-ignore]
        """Grades an action by rubrank's rubric."""

        async def forward(self, action: Any, observation: Any) -> float:
            """Return the gated weighted mean of the scores, from 0 to 1. Raises NoScore if every score is missing."""
            if read is not None:
                data = dict(read(action, observation))
            else:
                metadata = getattr(observation, "metadata", None)
                data = dict(metadata) if isinstance(metadata, Mapping) else {}
                data["response"] = getattr(action, "message", None)
            if not isinstance(data.get("response"), str | list):
                raise InvalidInput(
                    _OWNER,
                    "response",
                    allowed="what `read` returns: a text or messages",
                    got=repr(data.get("response")),
                    remedy="Pass read=….",
                )
            response = data.pop("response")
            query = make_query(data.get("prompt", ""), data, rubric_column=rubric_column)
            group_id = f"openenv-{next(action_numbers)}"
            step = await score_query(
                engine, query, [response], step=0, where=_OWNER, id=group_id, train=False
            )
            score = float(
                np.concatenate([compute_gated_means(result) for result in step.results])[0]
            )
            if np.isnan(score):
                raise NoScore(
                    f"{_OWNER}: no criterion has a score for an action. Check the judges."
                )
            return score

    return RubrankRubric()
