"""The utility models, and the fits behind them. Importing this package registers the models of the library."""

from rubrank.fusion.models.builtin import BordaCount, BradleyTerry, Thurstone
from rubrank.fusion.models.model import utility_model

for _model in (BradleyTerry, Thurstone, BordaCount):
    utility_model(_model)

__all__ = ["BordaCount", "BradleyTerry", "Thurstone"]
