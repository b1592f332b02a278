"""What tests in a browser need, or the reason why they are skipped."""

from __future__ import annotations

import importlib.util
import shutil

import pytest

MISSING = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
MISSING += [] if importlib.util.find_spec("selenium") else ["selenium"]
NEEDS_BROWSER = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}: apt install chromium chromium-driver"),
]
