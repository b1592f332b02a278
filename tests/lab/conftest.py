"""The laboratory of recipes/lab can be imported."""

from __future__ import annotations

import sys
from pathlib import Path

RECIPE = Path(__file__).parents[2] / "recipes" / "lab"
if str(RECIPE) not in sys.path:
    sys.path.insert(0, str(RECIPE))
