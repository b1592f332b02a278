"""`rubrank view rubrics.jsonl`: a drafted rubric beside its prompt."""

import json
from pathlib import Path

import pytest

from rubrank.drafting.draft import Author, DraftedItem, DraftedRubric, draft_rubric
from rubrank.drafting.page import is_draft_file, make_page, read_drafts
from rubrank.errors import InvalidInput

starlette = pytest.importorskip("starlette.testclient", reason="pip install 'rubrank[serve]'")

WRITTEN = DraftedItem(
    {"name": "moon", "question": "Does it name the <moon>?", "points": 5},
    "written",
    author=Author("a", "big-1", "2"),
    figures={"decided": 0.5, "enforced": True},
)
DROPPED = DraftedItem({"name": "sun", "question": "Does it name the sun?"}, "written", kept=False, reason="decides 0%")


def write_drafts(path: Path) -> Path:
    compiled = draft_rubric("Explain tides <b>fast</b>. Use at most 30 words.", activate=False)
    rubric = DraftedRubric(
        compiled.prompt, "chat", [*compiled.items, WRITTEN, DROPPED], {"breaker": "Moon.", "breaker_wins": 0.25}
    )
    rows = [rubric.to_row(), draft_rubric("Why is the sky blue?").to_row()]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_page_shows_the_prompt_the_figures_and_the_decisions(tmp_path):
    page = make_page(read_drafts(write_drafts(tmp_path / "rubrics.jsonl")), 0)
    assert "Explain tides &lt;b&gt;fast&lt;/b&gt;. <mark>Use at most 30 words.</mark>" in page
    assert "Does it name the &lt;moon&gt;?" in page
    for words in ("writer a", "model big-1", "prompt version 2", "pairs decided: 0.5", "violation caught: yes"):
        assert words in page
    assert "dropped: decides 0%" in page
    assert "Does it name the sun?" in page, "a dropped item keeps its question"
    assert "beats 25% of the responses" in page
    assert '<a href="/?row=2">Why is the sky blue?</a>' in page


def test_only_drafted_files_are_shown_as_drafts(tmp_path):
    path = write_drafts(tmp_path / "rubrics.jsonl")
    assert is_draft_file(path)
    other = tmp_path / "records.jsonl"
    other.write_text('{"group": "1"}\n')
    assert not is_draft_file(other)
    assert not is_draft_file(tmp_path)
    with path.open("a") as file:
        file.write('{"prompt": "x", "rubric": ["EmptyAnswer"]}\n')
    with pytest.raises(InvalidInput, match="row 3"):
        read_drafts(path)


def test_the_server_refuses_other_hosts_and_rows_that_do_not_exist(tmp_path):
    from rubrank.viewer.server import make_drafts_app

    app = make_drafts_app(write_drafts(tmp_path / "rubrics.jsonl"), hosts=["localhost"])
    client = starlette.TestClient(app, base_url="http://localhost")
    assert "Why is the sky blue?" in client.get("/?row=2").text
    assert client.get("/").headers["content-security-policy"].startswith("default-src 'none'")
    assert client.get("/draft.css").headers["content-type"].startswith("text/css")
    assert client.get("/?row=3").status_code == 404
    assert client.get("/?row=x").status_code == 404
    assert client.get("/", headers={"host": "elsewhere.example"}).status_code == 400
