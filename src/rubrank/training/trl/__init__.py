"""TRL: a reward function that sees whole groups.

from rubrank.training.trl import RubricReward
"""

from rubrank.training.trl.reward import RubricReward

__all__ = ["RubricReward"]
