"""rubrank: rubrics into rewards, by ranking.

    rubric + rollouts → verifiers & judges → score table → comparisons → utilities → fused reward → gate → trainer
                                                     └ attributes ┘

    >>> import rubrank
    >>> scores = [[1, 0.5, 7],       # one row for each rollout of a group, one column for each criterion:
    ...           [1, 1.0, 8],       # any scale, any mix of yes/no, grades and metrics; NaN = not scored
    ...           [0, 1.0, 3]]
    >>> rubrank.fuse(scores).round(2)
    array([0.29, 1.  , 0.  ])

`fuse` gives rewards, `utilities` what is behind them, `RLVR2` everything at once with explanations. Only NumPy is
imported here; numba is loaded by the first fit, polars and rich by the command line.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rubrank.adjustment import attenuate as attenuate
    from rubrank.aggregators.rlvr2 import RLVR2 as RLVR2
    from rubrank.attributes.length import Lengths as Lengths
    from rubrank.attributes.length import lengths as lengths
    from rubrank.attributes.markdown import MARKERS as MARKERS
    from rubrank.attributes.markdown import markdown_counts as markdown_counts
    from rubrank.attributes.markdown import markdown_density as markdown_density
    from rubrank.comparison import outcomes as outcomes
    from rubrank.errors import BadTable as BadTable
    from rubrank.errors import InvalidInput as InvalidInput
    from rubrank.errors import RubrankError as RubrankError
    from rubrank.errors import SolverError as SolverError
    from rubrank.errors import UnknownName as UnknownName
    from rubrank.fused import FusedBatch as FusedBatch
    from rubrank.fused import FusedGroup as FusedGroup
    from rubrank.fusion import fuse as fuse
    from rubrank.fusion import utilities as utilities
    from rubrank.gate import Gate as Gate
    from rubrank.gate import Gated as Gated
    from rubrank.utility import register_model as register_model

__version__ = "0.1.0"

_HOMES = {
    "fuse": "fusion",
    "utilities": "fusion",
    "RLVR2": "aggregators.rlvr2",
    "FusedBatch": "fused",
    "FusedGroup": "fused",
    "Gate": "gate",
    "Gated": "gate",
    "attenuate": "adjustment",
    "outcomes": "comparison",
    "lengths": "attributes.length",
    "Lengths": "attributes.length",
    "markdown_counts": "attributes.markdown",
    "markdown_density": "attributes.markdown",
    "MARKERS": "attributes.markdown",
    "register_model": "utility",
    "RubrankError": "errors",
    "InvalidInput": "errors",
    "UnknownName": "errors",
    "BadTable": "errors",
    "SolverError": "errors",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'rubrank' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"rubrank.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
