"""The utility models. One file each; importing this package registers them."""

from rubrank.fusion.model import utility_model
from rubrank.fusion.models.borda import BordaCount
from rubrank.fusion.models.bradley_terry import BradleyTerry
from rubrank.fusion.models.thurstone import Thurstone

for _model in (BradleyTerry, Thurstone, BordaCount):
    utility_model(_model)

__all__ = ["BordaCount", "BradleyTerry", "Thurstone"]
