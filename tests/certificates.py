"""Certificates for tests: self-signed, for one name.

certificate, key = write(tmp_path, "localhost")        two PEM files
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def write(folder: Path, name: str) -> tuple[Path, Path]:
    """Certificate and key; skips where there is no openssl."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("needs openssl")
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    made = f"{program} req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2".split()
    kind = "IP" if name[0].isdecimal() else "DNS"
    named = ["-subj", f"/CN={name}", "-addext", f"subjectAltName={kind}:{name}"]
    subprocess.run([*made, *named, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    return certificate, key
