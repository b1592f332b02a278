"""prime-rl: a rubric as the reward of a group, before its algorithm assigns credit.

    # orchestrate.py, started instead of prime-rl's orchestrator
    from rubrank.training.frameworks.prime_rl import install
    install()                                    every algorithm of prime-rl, with the rubric's rewards
    from prime_rl.orchestrator.orchestrator import main
    main()

Input. prime-rl calls `Algorithm.score_group(episodes)` with all episodes of a task; evaluations do not call it.
prime-rl has no setting that names a class, and its table of algorithms is fixed, so `install` replaces each algorithm
by a subclass.

Output. prime-rl gets the same episodes: first their traces get the rubric's rewards (`reward_episodes` in
`verifiers.py`), then the algorithm runs. A trace without any score gets the mean of its group.

Tested with stand-ins of its algorithms and episodes; its interface was last read at commit 216fa7a. prime-rl itself was
not run.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from rubrank.training.config import EngineSource, load_engine
from rubrank.training.frameworks.verifiers import reward_episodes

_OWNER = "prime-rl"


class RubricScoring:
    """A mixin; put it before an algorithm of prime-rl."""

    rubrank: EngineSource = None
    """An engine, or the path of a configuration; None: RUBRANK_CONFIG."""

    async def score_group(self, episodes: Any, *args: Any, **kwargs: Any) -> None:
        """Set the rubric's rewards, then let the algorithm assign credit."""
        engine, rubric_column = load_engine(self.rubrank, _OWNER)
        await reward_episodes(engine, episodes, rubric_column=rubric_column)
        await super().score_group(episodes, *args, **kwargs)  # type: ignore[misc]


def install(
    engine: EngineSource = None, classes: MutableMapping[str, Any] | None = None
) -> tuple[str, ...]:
    """Make prime-rl's algorithms use a rubric; returns their names. classes: by default prime-rl's own table."""
    load_engine(engine, _OWNER)  # raises now if the configuration is wrong
    if classes is None:
        from prime_rl.orchestrator.algo import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
            ALGORITHM_CLASSES,
        )

        classes = ALGORITHM_CLASSES
    assert classes is not None
    for name, algorithm in list(classes.items()):
        if not issubclass(algorithm, RubricScoring) and hasattr(algorithm, "score_group"):
            bases = (RubricScoring, algorithm)
            classes[name] = type(f"Rubric{algorithm.__name__}", bases, {"rubrank": engine})
    return tuple(classes)
