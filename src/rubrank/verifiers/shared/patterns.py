"""Patterns from data, compiled by RE2: none of them can keep a verifier busy.

compile_re2("ID-[0-9]{4}", case_sensitive=False)     re2.error for what RE2 does not know, such as look-around
"""

from __future__ import annotations

from typing import Any

import re2


def compile_re2(source: str, **options: Any) -> Any:
    """The pattern, with options of RE2's (`case_sensitive`, `max_mem` …); nothing is written to standard error."""
    re2_options = re2.Options()
    re2_options.log_errors = False
    for name, value in options.items():
        setattr(re2_options, name, value)
    return re2.compile(source, re2_options)
