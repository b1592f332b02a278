"""The documented import path of `RubricReward`; the code is in `rubrank.training.frameworks.trl`."""

from rubrank.training.frameworks.trl import RubricReward

__all__ = ["RubricReward"]
