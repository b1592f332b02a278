"""rubrank: rubrics into rewards, by ranking.

    rubric + rollouts → verifiers & judges → score table → comparisons → utilities → fused reward → gate → trainer
                                                     └ attributes ┘

    >>> import rubrank
    >>> scores = [[1, 0.5, 7],       # one row for each rollout of a group, one column for each criterion:
    ...           [1, 1.0, 8],       # any scale, any mix of yes/no, grades and metrics; NaN = not scored
    ...           [0, 1.0, 3]]
    >>> rubrank.fuse(scores).round(2)
    array([0.29, 1.  , 0.  ])

`grade` turns rollouts and a rubric into scores, by programs and judges; `fuse` turns scores into rewards, `find_rule`
finds other ways to do so. `utilities` are what is behind rewards; `RLVR2` gives everything at once, with explanations,
and records keep it. Nothing heavy is imported here: a name is loaded when it is first used, numba by the first fit,
polars and rich by files and the command line.
"""

from __future__ import annotations

import importlib
import re
from typing import Any

__version__ = "0.2.0"

# Public name → where it lives, and its name there; all of them are listed in the stub, where type checkers look.
with open(f"{__file__}i", encoding="utf-8") as _stub:
    _LISTED = re.findall(r"^from (\S+) import (\w+) as (\w+)$", _stub.read(), re.MULTILINE)
_HOMES = {name: (module, inside) for module, inside, name in _LISTED}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'rubrank' has no attribute {name!r}")
    module, inside = _HOMES[name]
    value = getattr(importlib.import_module(module), inside)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
