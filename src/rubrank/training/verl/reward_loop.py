"""`reward.reward_manager.module.path=pkg://rubrank.training.verl.reward_loop`: the reward managers for verl."""

from rubrank.training.frameworks.verl.reward_loop import RubricBarrier, RubricScores

__all__ = ["RubricBarrier", "RubricScores"]
