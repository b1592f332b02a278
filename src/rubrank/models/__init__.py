"""The utility models. One file each; importing this package registers them."""

from rubrank.models.borda import Borda
from rubrank.models.bradley_terry import BradleyTerry
from rubrank.models.thurstone import Thurstone
from rubrank.utility import register_model

for _model in (BradleyTerry, Thurstone, Borda):
    register_model(_model)

__all__ = ["Borda", "BradleyTerry", "Thurstone"]
