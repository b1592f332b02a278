"""Patterns from rubrics and data, compiled by RE2: it takes linear time, so no pattern can stall a verifier.

compile_re2("ID-[0-9]{4}", case_sensitive=False)     re2.error for what RE2 does not know, such as look-around
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import re2

from rubrank._plain import replace_surrogates


@lru_cache(maxsize=2048)
def compile_re2(source: str, *, case_sensitive: bool = True) -> Any:
    """Return the compiled pattern; raises `re2.error` if RE2 cannot read it. Texts to search must be valid UTF-8."""
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = case_sensitive
    return re2.compile(replace_surrogates(source), options)
