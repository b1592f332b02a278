"""`rubrank help`: the pages that messages and docstrings refer to can be read wherever the package is installed."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import rubrank
from rubrank.cli.app import app
from rubrank.cli.verbs.start import list_pages, select_sections

SOURCES = Path(rubrank.__file__).parent
ROOT = Path(__file__).parents[2]
TEXT_FILES = [path for path in SOURCES.rglob("*") if path.suffix in (".py", ".pyi", ".yaml", ".js", ".html", ".txt")]


def run(*arguments):
    return CliRunner().invoke(app, ["help", *arguments])


def references(pattern):
    """(file, topic) of everything in the sources and pages that matches."""
    for path in [*TEXT_FILES, *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]:
        for topic in re.findall(pattern, path.read_text(encoding="utf-8")):
            yield path.name, topic


@pytest.mark.parametrize("pattern", [r"docs/([a-z_/]+)\.md", r"rubrank help (?!docs/)([a-z_/]+)"])
def test_every_page_that_is_referred_to_is_a_topic(pattern):
    found = set(references(pattern))
    assert len(found) > 20
    topics = {*list_pages(), *(info.name for info in app.registered_commands)}
    assert {(name, topic) for name, topic in found if topic not in topics} == set()


def test_a_page_is_printed_by_its_topic_and_by_its_path():
    result = run("gates")
    assert result.exit_code == 0
    assert result.stdout.startswith("# Gates\n")
    assert run("docs/gates.md").stdout == result.stdout


def test_links_to_pages_are_topics():
    assert "(`rubrank help attributes`)" in run("findings").stdout
    assert "](" not in run("index").stdout
    tutorial = run("tutorials/draft").stdout  # links are relative to the folder of the page
    assert "judge (`rubrank help tutorials/judge`)" in tutorial.replace("\n", " ")
    assert "(`rubrank help drafting`)" in tutorial


def test_topics_are_listed_with_their_titles():
    lines = run().stdout.splitlines()
    assert any(line.split(maxsplit=1) == ["gates", "Gates"] for line in map(str.strip, lines))
    assert any(line.startswith("tutorials/trl") for line in lines)


def test_a_section_is_selected_by_words_of_its_heading():
    page = "# Page\n\nIntro.\n\n## One thing\n\n```\n# no heading\n```\n\n### Inside\n\nText.\n\n## Other\n\nEnd.\n"
    assert select_sections(page, "one", "page") == "## One thing\n\n```\n# no heading\n```\n\n### Inside\n\nText.\n"
    assert select_sections(page, "inside", "page") == "### Inside\n\nText.\n"


def test_an_unknown_section_lists_the_headings():
    result = run("gates", "nonsense")
    assert result.exit_code == 2
    assert "Gates by hand" in result.stderr


def test_a_verb_without_a_page_shows_its_options():
    assert "--output" in run("fuse").stdout


def test_an_unknown_topic_suggests_a_near_one():
    result = run("judgs")
    assert result.exit_code == 2
    assert "Did you mean 'judges'?" in result.stderr
