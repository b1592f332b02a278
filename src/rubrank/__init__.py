"""rubrank: rubrics into rewards, by ranking.

    rubric + rollouts → verifiers & judges → score table → comparisons → utilities → fused reward → gate → trainer
                                                     └ attributes ┘

    >>> import rubrank
    >>> scores = [[1, 0.5, 7],       # one row for each rollout of a group, one column for each criterion:
    ...           [1, 1.0, 8],       # any scale, any mix of yes/no, grades and metrics; NaN = not scored
    ...           [0, 1.0, 3]]
    >>> rubrank.fuse(scores).round(2)
    array([0.29, 1.  , 0.  ])

`grade` turns rollouts and a rubric into scores, with programs and judges. `fuse` turns scores into rewards, and
`find_rule` finds other rules that do. `RLVR2` returns everything behind a reward: utilities, weights and explanations.

Public names are imported when they are first used, so that `import rubrank` is quick: numba is loaded by the first fit,
polars and rich by files and the command line.
"""

from __future__ import annotations

import importlib
import re
from typing import Any

__version__ = "0.2.0"

# The stub __init__.pyi lists all public names for type checkers, one per line:
#     from rubrank.fusion.rlvr2 import RLVR2 as RLVR2
# Its lines are read here, so that there is one list only.
with open(f"{__file__}i", encoding="utf-8") as _stub:
    _STUB_IMPORTS = re.findall(r"^from (\S+) import (\w+) as (\w+)$", _stub.read(), re.MULTILINE)
_HOMES = {name: (module, inside) for module, inside, name in _STUB_IMPORTS}
"""Public name → the module that defines it, and its name there."""

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
