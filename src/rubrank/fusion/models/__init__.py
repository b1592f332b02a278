"""The utility models, and the fits behind them."""

from rubrank.fusion.models.model import BordaCount, BradleyTerry, Thurstone

__all__ = ["BordaCount", "BradleyTerry", "Thurstone"]
