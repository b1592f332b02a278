"""The documentation as a site: every page is in it, every public name is in the reference, links hold."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import rubrank

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_every_page_is_in_the_navigation():
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    listed = set(re.findall(r"[\w/.-]+\.md", nav)) - {"criteria/index.md"}  # written when the site is built
    assert listed == {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}


def test_evidence_begins_with_a_question_and_its_answer():
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("- Evidence:")[2].partition("- Log:")[0]
    pages = re.findall(r"[\w/.-]+\.md", nav)
    assert len(pages) >= 7
    for page in pages:
        title, _, opening = (DOCS / page).read_text(encoding="utf-8").partition("\n\n")
        question, _, answer = "\n".join(opening.splitlines()[:3]).partition("?**")
        assert title.startswith("# "), page
        assert question.startswith("**"), page
        assert len(answer.split()) >= 20, page


def test_the_reference_has_every_public_name():
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted((DOCS / "reference").glob("*.md")))
    found = re.findall(r"^::: rubrank\.(\w+)$", text, re.MULTILINE)
    assert sorted(found) == sorted(name for name in rubrank.__all__ if name != "__version__")


def test_files_that_the_pages_name_exist():
    named = re.compile(r"`([\w./-]+/[\w.-]+\.py)`")
    folders = {path.name for base in (ROOT, ROOT / "src", ROOT / "src" / "rubrank") for path in base.iterdir()}
    pages = [ROOT / "README.md", *DOCS.glob("*.md")]  # not the log, which tells what was
    gone = [
        f"{page.name}: {path}"
        for page in pages
        for path in named.findall(page.read_text(encoding="utf-8"))
        # Pages also name files of other repositories, such as open_instruct/ground_truth_utils.py.
        if path.split("/")[0] in folders and not path.startswith("src/prime_rl")
        if not any((folder / path).exists() for folder in (ROOT, ROOT / "src", ROOT / "src" / "rubrank"))
    ]
    assert not gone


class _PageText(HTMLParser):
    """The headings of a page, and its text outside code."""

    def __init__(self) -> None:
        super().__init__()
        self.open_tags: list[str] = []
        self.text: list[str] = []
        self.headings: list[str] = []

    def handle_starttag(self, tag, attributes):
        if tag not in ("br", "hr", "img", "input", "meta", "link", "wbr", "source", "path"):
            self.open_tags.append(tag)
        if tag in ("h1", "h2", "h3", "h4"):
            self.headings.append("")

    def handle_endtag(self, tag):
        if tag in self.open_tags:
            while self.open_tags.pop() != tag:
                pass

    def handle_data(self, data):
        if not {"code", "pre", "script", "style"} & set(self.open_tags):
            self.text.append(data)
        if self.headings and {"h1", "h2", "h3", "h4"} & set(self.open_tags) and data != "¶":
            self.headings[-1] += data


def source_headings(markdown: str) -> list[str]:
    """The headings that a page should have, without marks, links and code."""
    outside_code = re.sub(r"^([ \t]*)(`{3,}|~{3,}).*?^\1\2[ \t]*$", "", markdown, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#{1,4} (.+?)(?: \{.*\})?$", outside_code, re.MULTILINE)
    return [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]


def letters_of(text: str) -> str:
    return re.sub(r"\W", "", text)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("material", reason="pip install 'rubrank[docs]'")
    pytest.importorskip("mkdocstrings_handlers.python", reason="pip install 'rubrank[docs]'")
    folder = tmp_path_factory.mktemp("site") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    finished = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    return folder


@pytest.mark.slow
def test_it_builds_without_a_warning(site):
    page = (site / "reference" / "fusion" / "index.html").read_text(encoding="utf-8")
    assert 'id="rubrank.fuse"' in page
    assert not re.search(r'(?:src|href)="https?://(?!www\.mkdocs|squidfunk)', page), "nothing is fetched from anywhere"


@pytest.mark.slow
def test_every_page_shows_its_headings_and_no_fence(site):
    """A code block that is not closed, or not parsed, swallows the sections behind it."""
    faults = []
    for source in DOCS.rglob("*.md"):
        name = source.relative_to(DOCS).with_suffix("")
        page = site / name.parent / "index.html" if name.name == "index" else site / name / "index.html"
        parser = _PageText()
        parser.feed(page.read_text(encoding="utf-8"))
        if "```" in "".join(parser.text):
            faults.append(f"{name}: a fence in the text")
        shown = {letters_of(heading) for heading in parser.headings}
        for heading in source_headings(source.read_text(encoding="utf-8")):
            if letters_of(heading) not in shown:
                faults.append(f"{name}: no heading {heading!r}")
    assert not faults


@pytest.mark.slow
def test_pages_of_criteria_show_texts_as_they_are(site):
    """Angle brackets, carets and lists of docstrings and examples, and what a judge is asked."""
    page = (site / "criteria" / "GroundTruthMatch" / "index.html").read_text(encoding="utf-8")
    parser = _PageText()
    parser.feed(page)
    text = "".join(parser.text)
    assert "The result is the last <answer>, <solution>, \\boxed{}, ####" in text
    assert "\\frac{x^2-1}{x-1}" in text
    assert "<li>set: the same entries, in any order.</li>" in page
    for page in (site / "criteria").rglob("index.html"):
        assert not re.search(r"<code[^>]*>(?:<[^>]*>)*Passes:", page.read_text(encoding="utf-8")), (
            f"{page}: prose as code"
        )
    judged = (site / "criteria" / "GeneralQuality" / "index.html").read_text(encoding="utf-8")
    assert "How good is this response, all in all" in judged
