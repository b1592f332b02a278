"""The verbs about judges, as a user types them, against a server on this machine."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from judges.server import MODEL, Answer, Asked, Server
from typer.testing import CliRunner, Result

from rubrank.cli.app import app
from rubrank.judges.judge import load_judges
from rubrank.scores.criterion import CriterionData
from rubrank.scores.files import read_scores
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.verifiers.verifier import discrete

DOC = Path(__file__).parents[2] / "docs" / "judges.md"
REPLY = '{"reasoning": "It names one.", "finding": "in my words", "verdict": 1}'


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [("q", "West Lake."), ("q", "Lake Tai is near."), ("q", ""), ("r", "The Rhine."), ("r", "Rivers.")]
    lines = [json.dumps({"prompt": f"Query {q}", "group": q, "response": text}) for q, text in rows]
    Path("rollouts.jsonl").write_text("\n".join(lines) + "\n")
    Path("rubric.yaml").write_text("criteria: [{name: CoreIntentMatch, weight: 2}, EmptyAnswer]\n")
    return tmp_path


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    with Server([Answer(REPLY)]) as server:
        endpoint = {"base_url": server.url, "model": MODEL, "price": {"input": 1, "output": 4}}
        Path("judges.yaml").write_text(json.dumps({"endpoints": [endpoint], "retry": {"attempts": 1}}))
        yield server


def grade(*more: str) -> Result:
    return run(
        "grade", "rollouts.jsonl", "--rubric", "rubric.yaml", "--judges", "judges.yaml", "-o", "s.parquet", *more
    )


def test_the_file_on_the_page_is_right() -> None:
    (text,) = re.findall(r"^```yaml judges\.yaml\n(.*?)^```$", DOC.read_text(encoding="utf-8"), re.M | re.S)
    import yaml

    judges = load_judges(yaml.safe_load(text))
    assert judges.judge_of("GeneralQuality").name == "ranker"  # type: ignore[union-attr]
    assert judges.judge_of("LogicalError").name == "main"  # type: ignore[union-attr]


def test_grade_asks_and_tells_what_it_took(server: Server) -> None:
    result = grade()
    assert result.exit_code == 0, result.output
    assert "4 answers requested, 0 missing; 4 calls, 0 from the cache, cost 0.00072" in result.output
    assert len(server.completions) == 4  # not about the empty one
    assert read_scores("s.parquet")["r"].scores[:, 0].tolist() == [1.0, 1.0]


def test_a_second_run_and_stats(server: Server) -> None:
    grade()
    again = json.loads(grade("--cache-only", "--json", "--force").stdout)
    assert again["judging"]["account"]["calls"] == 0
    assert again["judging"]["account"]["hits"] == 4
    assert len(server.completions) == 4
    stats = run("judge", "stats")
    assert re.search(r"^all +4 ", stats.output, re.M)
    told = json.loads(run("judge", "stats", ".rubrank/replies.sqlite", "--json").stdout)
    assert (told["calls"], told["input_tokens"], told["cost"]) == (4, 400, pytest.approx(0.00072))


def test_another_output_is_not_paid_again(server: Server) -> None:
    grade()
    Path("sub").mkdir()
    result = run("grade", "rollouts.jsonl", "--rubric", "rubric.yaml", "--judges", "judges.yaml", "-o", "sub/t.jsonl")
    assert "4 answers requested, 0 missing; 0 calls, 4 from the cache" in result.output
    assert len(server.completions) == 4
    assert Path(".rubrank/replies.sqlite").stat().st_mode & 0o077 == 0


def test_the_project_is_the_folder_above_that_looks_like_one(tmp_path: Path) -> None:
    from rubrank.judges.client.cache import find_default_cache_path

    inner = tmp_path / "project" / "runs" / "one"
    inner.mkdir(parents=True)
    assert find_default_cache_path(inner) == inner / ".rubrank" / "replies.sqlite"
    (inner / ".rubrank" / ".gitignore").unlink()
    (inner / ".rubrank").rmdir()
    (tmp_path / "project" / ".git").mkdir()
    assert find_default_cache_path(inner) == tmp_path / "project" / ".rubrank" / "replies.sqlite"
    assert (tmp_path / "project" / ".rubrank" / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize(
    ("status", "message"),
    [(401, "a key that"), (403, "a key that"), (404, "must be one that"), (302, "must be the endpoint itself")],
)
def test_a_wrong_key_model_or_url_stops_at_once(folder: Path, status: int, message: str) -> None:
    with Server([Answer(status=status, body='{"error": {"message": "no"}}')], models=None) as server:
        endpoint = {"base_url": server.url, "model": MODEL}
        Path("judges.yaml").write_text(json.dumps({"endpoints": [endpoint]}))
        Path("s.parquet").write_text("an earlier one")
        result = grade("--force") if "--force" in run("grade", "--help").output else grade()
        assert len(server.completions) <= 1
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert Path("s.parquet").read_text() == "an earlier one"


def test_what_is_missing_is_told_in_one_line(folder: Path) -> None:
    def script(asked: Asked) -> Answer:
        return Answer(status=500, body="{}") if "Rhine" in asked.prompt else Answer(REPLY)

    with Server(script) as server:
        judges = {"judges": [{"endpoints": [{"base_url": server.url, "model": MODEL}], "retry": {"attempts": 1}}]}
        Path("judges.yaml").write_text(json.dumps({**judges, "most_missing": 0.3}))
        result = grade()
        assert "4 answers requested, 1 missing (25.0%: 1 × HTTP 500); 4 calls" in result.output
        Path("judges.yaml").write_text(json.dumps(judges))
        result = run("grade", "rollouts.jsonl", "--rubric", "rubric.yaml", "--judges", "judges.yaml", "-o", "t.parquet")
    assert result.exit_code == 2
    assert "1 of 4 answers are missing (25.0%), and most_missing allows 20.0%" in result.stderr
    assert not Path("t.parquet").exists()


@pytest.mark.slow
def test_an_interrupt_says_what_is_kept(folder: Path) -> None:
    with Server(lambda asked: Answer(REPLY, delay=60.0 if "Rhine" in asked.prompt else 0.0)) as server:
        Path("judges.yaml").write_text(json.dumps({"endpoints": [{"base_url": server.url, "model": MODEL}]}))
        words = ["grade", "rollouts.jsonl", "--rubric", "rubric.yaml", "--judges", "judges.yaml", "-o", "s.parquet"]
        child = subprocess.Popen([sys.executable, "-m", "rubrank", *words], stderr=subprocess.PIPE, text=True)
        while len(server.completions) < 4 and child.poll() is None:
            time.sleep(0.02)
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=300)
    assert child.returncode == 130
    assert "3 of 4 replies are kept in" in errors
    assert "run again to continue" in errors
    assert "Traceback" not in errors


def test_check(server: Server) -> None:
    assert run("judge", "check", "judges.yaml").output == f"judge: batched, {MODEL}: healthy\n"
    assert not server.completions


def test_nobody_there(folder: Path) -> None:
    Path("judges.yaml").write_text('{"endpoints": [{"base_url": "http://127.0.0.1:9/v1", "model": "m"}]}')
    result = run("judge", "check", "judges.yaml")
    assert result.exit_code == 2
    assert "Start the server, or correct the URL" in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("judge", "stats", "none.sqlite"), "a file that can be read"),
        (("judge", "audit", "none.parquet"), "no such file"),
        (
            ("grade", "rollouts.jsonl", "--rubric", "rubric.yaml", "-o", "s.parquet", "--cache-only"),
            "--judges FILE",
        ),
    ],
)
def test_one_clear_line_for_each_mistake(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_audit(folder: Path) -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 5, (30, 6))
    for name, noise in (("good", 0), ("again", 1), ("people", 1)):
        groups = [
            GroupScores(
                f"q{g}",
                (CriterionData("Taste", domain=discrete(*range(-1, 6))),),
                (truth[g] + rng.integers(-noise, noise + 1, 6))[:, None].astype(float),
                (("said",),) * 6,
            )
            for g in range(30)
        ]
        ScoreTable(tuple(groups)).write(f"{name}.parquet")
    options = ("good=good.parquet", "other=again.parquet", "--humans", "people.parquet", "--bootstrap", "50")
    result = run("judge", "audit", *options, "--picture", "audit.png")
    assert result.exit_code == 0, result.output
    assert "good, other: 180 rollouts in 30 groups" in result.output
    assert "not measured" in result.output
    assert Path("audit.png").stat().st_size > 10_000
    assert json.loads(run("judge", "audit", *options, "--json").stdout)["judges"] == ["good", "other"]


def test_the_reference_answer_of_a_row_reaches_the_judge_once(server: Server) -> None:
    rubric = [
        {"title": "Dose", "description": "Essential Criteria: Gives the dose.", "weight": 5},
        {"title": "Doctor", "description": "Important Criteria: Advises to see a doctor.", "weight": 3},
    ]
    row = {"question": "How much?", "reference_answer": "400 mg at most, and ask a doctor.", "rubric": rubric}
    rows = [{**row, "response": response} for response in ("200 mg.", "A lot.")]
    Path("rar.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run("grade", "rar.jsonl", "--judges", "judges.yaml", "--most-missing", "1", "-o", "s.parquet")
    prompts = [request.prompt for request in server.completions if "How much?" in request.prompt]
    assert len(prompts) == 2
    for prompt in prompts:
        assert prompt.count("400 mg at most, and ask a doctor.") == 1
        assert "Reference material for Dose, Doctor" in prompt


def write_limited_judges(server: Server, **settings: object) -> None:
    endpoint = {"base_url": server.url, "model": MODEL, "price": {"input": 1, "output": 4}, "concurrency": 1}
    Path("judges.yaml").write_text(json.dumps({"judges": [{"endpoints": [endpoint]}], **settings}))


def test_no_call_is_sent_beyond_the_spending_limit(server: Server) -> None:
    # A call costs (100 × 1 + 20 × 4) / 1e6 = 0.00018: after the second one 0.0003 is exceeded.
    write_limited_judges(server, most_cost=0.0003, most_missing=0.5)
    result = grade("--most-missing", "0.5")
    assert result.exit_code == 0, result.output
    assert "2 missing (50.0%: 2 × spending limit reached); 2 calls, 0 from the cache, cost 0.00036" in result.output
    assert len(server.completions) == 2
    again = grade("--force")  # what was answered is in the cache, and a new run may spend again
    assert "0 missing; 2 calls, 2 from the cache" in again.output


def test_too_much_missing_beyond_the_spending_limit_fails(server: Server) -> None:
    write_limited_judges(server, most_cost=0.0001)
    result = grade()
    assert result.exit_code == 2
    assert "spending limit reached" in result.stderr
    assert len(server.completions) == 1


def test_a_spending_limit_without_prices_or_with_batches_is_refused(server: Server) -> None:
    endpoint = {"base_url": server.url, "model": MODEL}
    Path("judges.yaml").write_text(json.dumps({"judges": [{"endpoints": [endpoint]}], "most_cost": 5}))
    assert "most_cost must be used with prices" in grade().stderr
    write_limited_judges(server, most_cost=5)
    assert "--batch must be used without" in grade("--batch", "wait").stderr
    assert not server.completions


def test_costs_are_shown_in_the_currency_of_the_prices(server: Server) -> None:
    write_limited_judges(server, currency="EUR")
    assert "tokens in  tokens out  cost (EUR)\n" in grade("--dry-run").output  # one table, at 80 columns
    assert "0 from the cache, cost 0.00072 EUR\n" in grade().output
