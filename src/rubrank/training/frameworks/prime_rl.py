"""prime-rl: a rubric as the reward of a group, before its algorithm gives credit.

    # orchestrate.py, started instead of prime-rl's orchestrator
    from rubrank.training.frameworks.prime_rl import install
    install()                                    every algorithm of prime-rl, with the rubric's rewards
    from prime_rl.orchestrator.orchestrator import main
    main()

`Algorithm.score_group(episodes)` is called with all episodes of a task: shape (a). prime-rl has no setting that names
a class, and its table of algorithms is closed, so `install` puts a subclass in the place of each of them: first the
traces get the rubric's rewards (`episodes.py`), then the algorithm does what it does. Evaluations do not come this
way. A trace about which nothing is known gets the mean of its group.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.training.config import engine_of
from rubrank.training.engine import RewardEngine
from rubrank.training.frameworks.episodes import reward_episodes

_OWNER = "prime-rl"


class RubricScoring:
    """To be mixed in before an algorithm of prime-rl."""

    rubrank: RewardEngine | str | Path | None = None
    """An engine, or the path of a configuration; None: RUBRANK_CONFIG."""

    async def score_group(self, episodes: Any, *more: Any, **given: Any) -> None:
        """The rubric's rewards, then the algorithm's credit."""
        engine, column = engine_of(self.rubrank, _OWNER)
        await reward_episodes(engine, episodes, rubric_column=column)
        await super().score_group(episodes, *more, **given)  # type: ignore[misc]


def install(
    engine: RewardEngine | str | Path | None = None, classes: MutableMapping[str, Any] | None = None
) -> tuple[str, ...]:
    """Let prime-rl's algorithms reward by a rubric; returns their names. classes: by default prime-rl's own table."""
    engine_of(engine, _OWNER)  # a mistake in it shows here
    found = _classes() if classes is None else classes
    for name, one in list(found.items()):
        if not issubclass(one, RubricScoring) and hasattr(one, "score_group"):
            found[name] = type(f"Rubric{one.__name__}", (RubricScoring, one), {"rubrank": engine})
    return tuple(found)


def _classes() -> MutableMapping[str, Any]:
    for place in ("prime_rl.orchestrator.algo", "prime_rl.orchestrator.train.algo"):
        try:
            module = __import__(place, fromlist=["ALGORITHM_CLASSES"])
            return module.ALGORITHM_CLASSES
        except (ImportError, AttributeError):
            continue
    remedy = "Run it in prime-rl's environment, or pass classes=."
    raise InvalidInput(_OWNER, "package", "one with ALGORITHM_CLASSES", "none", remedy)
