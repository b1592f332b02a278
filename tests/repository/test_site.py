"""The documentation as a site: every page is in it, every public name is in the reference, links hold."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rubrank

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_every_page_is_in_the_navigation():
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    listed = set(re.findall(r"[\w/.-]+\.md", nav))
    assert listed == {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}


def test_the_reference_has_every_public_name():
    text = (DOCS / "reference.md").read_text(encoding="utf-8")
    found = re.findall(r"^::: rubrank\.(\w+)$", text, re.MULTILINE)
    assert sorted(found) == sorted(name for name in rubrank.__all__ if name != "__version__")


def test_files_that_the_pages_name_exist():
    named = re.compile(r"`([\w./-]+/[\w.-]+\.py)`")
    pages = [ROOT / "README.md", *DOCS.glob("*.md")]  # not the log, which tells what was
    gone = [
        f"{page.name}: {path}"
        for page in pages
        for path in named.findall(page.read_text(encoding="utf-8"))
        if not any((folder / path).exists() for folder in (ROOT, ROOT / "src", ROOT / "src" / "rubrank"))
    ]
    assert not gone


@pytest.mark.slow
def test_it_builds_without_a_warning(tmp_path):
    pytest.importorskip("material", reason="pip install 'rubrank[docs]'")
    pytest.importorskip("mkdocstrings_handlers.python", reason="pip install 'rubrank[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "start" / "index.html").exists()
    page = (tmp_path / "site" / "reference" / "index.html").read_text(encoding="utf-8")
    assert 'id="rubrank.fuse"' in page
    assert not re.search(r'(?:src|href)="https?://(?!www\.mkdocs|squidfunk)', page), "nothing is fetched from anywhere"
