"""`make test` installs on every Python that the project supports, also on its first release."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[2]


def read_pins():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("python", ["3.11.0", "3.12.0", "3.13.0"])
def test_no_pin_needs_a_later_python(python):
    # Debian 12 has Python 3.11.2; a version that needs 3.11.5 made `make test` fail there.
    checked = 0
    refusing = []
    for pin in read_pins():
        try:
            package = distribution(pin.name)
        except PackageNotFoundError:
            continue
        if not pin.specifier.contains(package.version.partition("+")[0], prereleases=True):
            continue
        checked += 1
        needs = package.metadata.get("Requires-Python") or ""
        if not SpecifierSet(needs).contains(python):
            refusing.append(f"{pin} needs Python {needs}")
    if checked < 100:
        pytest.skip("other versions than in constraints.txt are installed")
    assert not refusing
