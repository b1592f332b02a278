"""`rubrank judge show`: exactly what is sent, with its tokens; nobody is called."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from judges.server import MODEL, Answer, Server
from typer.testing import CliRunner

from rubrank.cli.app import app
from rubrank.grading.grade import grade
from rubrank.grading.preview import show_calls
from rubrank.judges.prompting.tokens import estimate_tokens, load_token_counter

RUBRIC = {
    "criteria": [
        {"name": "WordCount", "params": {"relation": "at least", "count": 3}},
        {"name": "Tone", "question": "How is the tone?", "anchors": {"0": "rude", "1": "flat", "2": "kind"}},
        {"name": "Cites", "question": "Does it cite the clause?"},
        {"name": "EmptyAnswer"},
    ]
}
ROWS = [{"prompt": "Where is my parcel?", "response": text, "group": "a"} for text in ("On its way.", "", "No idea.")]
OWN = "[system]\nYou grade our help desk.\n{criteria}\n{reply}\n[user]\n{conversation}\n{response}"


def run(*words: str) -> tuple[int, str, str]:
    found = CliRunner().invoke(app, ["judge", "show", *words])
    return found.exit_code, found.stdout, found.stderr


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "rubric.json").write_text(json.dumps(RUBRIC))
    (tmp_path / "rollouts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (tmp_path / "own.txt").write_text(OWN)
    judge = {"endpoints": [{"base_url": "http://localhost:1/v1", "model": "m"}], "prompt": "own.txt"}
    (tmp_path / "judges.json").write_text(json.dumps(judge))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_messages_are_those_that_are_sent(folder: Path) -> None:
    said = json.dumps({"Tone": {"verdict": 1}, "Cites": {"verdict": 0}})
    with Server(lambda asked: Answer(said)) as server:
        judge = {"endpoints": [{"base_url": server.url, "model": MODEL}]}
        grade(ROWS, RUBRIC, judges=judge, workers=0)
        sent = sorted(json.dumps(asked.body["messages"]) for asked in server.completions)
    shown = [show_calls(RUBRIC, ROWS, judge, rollout=i).calls for i in range(3)]
    assert [len(calls) for calls in shown] == [1, 0, 1], "the gate stops the empty answer"
    assert sorted(json.dumps([dict(m) for m in calls[0].messages]) for calls in shown if calls) == sent


def test_own_anchors_and_own_template(folder: Path) -> None:
    code, out, _ = run("rubric.json", "rollouts.jsonl", "--judges", "judges.json")
    assert code == 0
    assert "== call 1 of 1: judge judge, Tone, Cites (batched)\n-- system (" in out
    assert "\nYou grade our help desk.\n## Questions" in out
    assert '\n2: "kind"\n1: "flat"\n0: "rude"\n' in out
    assert "On its way." in out
    assert "estimated: 4 ASCII characters or 1 other character per token" in out
    assert "WordCount" not in out


def test_without_rollouts_and_with_a_tokenizer(folder: Path) -> None:
    ranks = [bytes([i]) for i in range(256)] + [b"th", b"the"]
    lines = (f"{base64.b64encode(token).decode()} {rank}" for rank, token in enumerate(ranks))
    (folder / "bytes.tiktoken").write_text("\n".join(lines))
    pytest.importorskip("tiktoken")
    code, out, _ = run("rubric.json", "--tokenizer", "bytes.tiktoken", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["tokenizer"] == "bytes.tiktoken"
    [call] = found["calls"]
    assert "(the response)" in call["messages"][1]["content"]
    text = call["messages"][1]["content"]
    assert call["tokens"][1] == len(text) - text.count("th") - text.count("the")
    assert found["tokens"] == sum(call["tokens"])
    assert call["schema"]["required"] == ["Tone", "Cites"]


def test_a_tokenizer_of_hugging_face(folder: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save("tokenizer.json")
    count, name = load_token_counter(Path("tokenizer.json"))
    assert (count("a b nobody a"), name) == (4, "tokenizer.json")


def test_comparisons_show_the_group_and_a_limit_holds(folder: Path) -> None:
    rows = [{**row, "response": f"answer {i}"} for i, row in enumerate(ROWS)]
    judge = {"kind": "pairwise", "endpoints": [{"base_url": "http://localhost:1/v1", "model": "m"}]}
    assert len(show_calls(RUBRIC, rows, judge).calls) == 2 * 3 * 2
    (folder / "pairs.json").write_text(json.dumps(judge))
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, out, _ = run("rubric.json", "rows.jsonl", "--judges", "pairs.json", "--most", "1")
    assert out.count("== call") == 1
    assert "== and 11 more; --most 0 prints them all" in out
    everything = json.loads(run("rubric.json", "rows.jsonl", "--judges", "pairs.json", "--most", "0", "--json")[1])
    limited = json.loads(run("rubric.json", "rows.jsonl", "--judges", "pairs.json", "--most", "2", "--json")[1])
    assert (len(everything["calls"]), len(limited["calls"])) == (12, 2)
    assert limited["calls"] == everything["calls"][:2]
    assert (limited["all_calls"], limited["tokens"]) == (12, everything["tokens"])
    assert "== 12 different calls" in out
    panel = {"samples": 5, "endpoints": judge["endpoints"]}
    [call] = show_calls(RUBRIC, rows, panel).calls
    assert call.times == 5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["rubric.json", "--tokenizer", "none.json"],
            "none.json: the file must be a file that can be read; got no such file",
        ),
        (["rubric.json", "--tokenizer", "rubric.json"], "--tokenizer must be a tokenizer.json"),
        (["rubric.json", "rollouts.jsonl", "--rollout", "7"], "--rollout must be from 0 to 2 in group 'a'; got 7"),
        (["rubric.json", "rollouts.jsonl", "--group", "b"], "--group"),
        (["gates"], "one with a criterion that a judge decides"),
        (["rubric.json", "rollouts.jsonl", "--judges", "no.json"], "no.json"),
    ],
)
def test_mistakes_are_one_line(folder: Path, words: list[str], said: str) -> None:
    code, _, err = run(*words)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1


def test_the_estimate() -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens("abcd" * 10) == 10
    assert estimate_tokens("西湖在杭州") == 5
