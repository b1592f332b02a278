"""The command line, and docs/cli.md, whose commands are run on the files that it shows."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import rubrank
from rubrank.cli.app import app

ROOT = Path(__file__).parents[2]
DOC = ROOT / "docs" / "cli.md"
ROWS = [
    {"uid": "q1", "scores": {"Facts": 1, "Style": 3}, "attributes": {"tokens": 312}},
    {"uid": "q1", "scores": {"Facts": 0, "Style": 5}, "attributes": {"tokens": 845}},
    {"uid": "q2", "scores": {"Facts": 1, "Keyword": 0.5}, "attributes": {"tokens": 112}},
    {"uid": "q2", "scores": {"Facts": 1, "Keyword": 0.7}, "attributes": {"tokens": 40}},
]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def run(*arguments: object):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def refused(*arguments: object) -> str:
    """The one line that a call is refused with."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("rubrank: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def process(*arguments: object, **more) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "rubrank", *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)


def documented(page: Path = DOC) -> list[tuple[str, str, str]]:
    """(language, file name, text) of every block of the page."""
    return re.findall(r"^```(\w+) ?(\S*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)


def console_steps(page: Path = DOC) -> list[tuple[str, str]]:
    """(command, what it prints) of every console block, in order."""
    steps = []
    for language, _, text in documented(page):
        if language == "console":
            for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
                command, _, expected = part.partition("\n")
                steps.append((command, expected))
    return steps


def without_margins(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


HOW_TO = sorted(f"how/{path.name}" for path in (ROOT / "docs" / "how").glob("*.md"))


@pytest.mark.parametrize("name", ["cli.md", "start.md", *HOW_TO])
def test_the_page_is_true(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """`make docs-output` writes what the commands print instead of comparing it."""
    update = request.config.getoption("--update-examples", False)
    page = ROOT / "docs" / name
    text = page.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    for _, file, content in documented(page):
        if file:
            Path(file).write_text(content, encoding="utf-8")
    assert len(console_steps(page)) > 6 or name in HOW_TO
    for command, expected in console_steps(page):
        program, *arguments = shlex.split(command)
        printed = Path(arguments[0]).read_text() if program == "cat" else run(*arguments).output
        printed = without_margins(printed)
        if update:
            text = text.replace(
                f"$ {command}\n{expected}", f"$ {command}\n{printed}\n" if printed else f"$ {command}\n"
            )
        else:
            assert printed == without_margins(expected), command
    if update:
        page.write_text(re.sub(r"\n+(?=^```$)", "\n", text, flags=re.M), encoding="utf-8")


def test_version_and_help() -> None:
    assert run("--version").output == f"rubrank {rubrank.__version__}\n"
    text = run("fuse", "--help").output
    assert "--attributes" in text
    assert "gate.floor=0.3" in text


def test_help_lists_verbs_in_groups() -> None:
    text = run("--help").output
    assert "─ Commands" not in text, "a verb is in no group"
    order = [
        "─ Rubrics",
        "│ check ",
        "─ Grading and judges",
        "│ judge ",
        "─ Rewards",
        "│ fuse ",
        "─ Records and reports",
        "│ view ",
    ]
    order += ["─ Training and service", "│ serve ", "─ This machine", "│ sandbox "]
    places = [text.index(part) for part in order]
    assert places == sorted(places)


def test_help_loads_nothing_heavy() -> None:
    code = "import sys, rubrank.cli.app; print([m for m in ('polars', 'numba', 'numpy', 'rich') if m in sys.modules])"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    assert subprocess.check_output([sys.executable, "-c", code], env=environment, text=True) == "[]\n"


def test_rewards_are_those_of_the_library(table: Path) -> None:
    result = run("fuse", table, "--json", "--weight", "Facts=3", "--set", "lower=Style", "--set", "margin.Keyword=0.5")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    expected = rubrank.fuse([[1, 3], [0, 5]], weights=[3, 1], directions=["higher", "lower"])
    assert [row["reward"] for row in rows[:2]] == expected.tolist()
    assert [(row["reward"], row["no_signal"]) for row in rows[2:]] == [(0.5, True)] * 2
    assert [{key: row[key] for key in ROWS[0]} for row in rows] == ROWS


@pytest.mark.parametrize("rule", ["remove", "attenuate:0.25:fixed", "attenuate:0.5"])
def test_adjustment(table: Path, rule: str) -> None:
    result = run(
        "fuse",
        table,
        "--json",
        "--attributes",
        "tokens",
        "--set",
        f"adjust={rule}",
        "--set",
        "seed=3",
        "--set",
        "criteria=Facts",
    )
    word, *parts = rule.split(":")
    adjust = "remove" if word == "remove" else rubrank.attenuate(float(parts[0]), *parts[1:])  # type: ignore[arg-type]
    expected = rubrank.fuse(
        [[1], [0], [1], [1]],
        groups=["q1", "q1", "q2", "q2"],
        attributes=[[312], [845], [112], [40]],
        adjust=adjust,  # type: ignore[arg-type]
        seed=3,
        criteria=["Facts"],
        attribute_names=["tokens"],
    )
    assert [json.loads(line)["reward"] for line in result.stdout.splitlines()] == expected.tolist()


def test_gate_adds_the_ranking(table: Path) -> None:
    result = run("fuse", table, "--json", "--global-quality", "Facts", "--set", "gate.missing=fail")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["reward"], row["ranking"]) for row in rows[:2]] == [(0.625, 0.0), (0.0, 1.0)]  # alone among the clean
    assert not rows[0]["no_signal"]
    paper = run(
        "fuse", table, "--json", "--global-quality", "Facts", "--set", "gate.missing=fail", "--set", "gate.lift=0"
    )
    rows = [json.loads(line) for line in paper.stdout.splitlines()]
    assert [row["reward"] for row in rows[:2]] == [0.0, 0.0]
    assert rows[0]["no_signal"]


def test_an_empty_list_of_attributes_means_no_control(table):
    plain = run("fuse", table, "--json", "--set", "lower=Style")
    assert run("fuse", table, "--json", "--set", "lower=Style", "--set", "attributes=[]").stdout == plain.stdout
    assert plain.exit_code == 0


def test_config_and_command_line(table: Path) -> None:
    config = table.with_name("rule.toml")
    config.write_text(
        'lower = ["Style"]\nadjust = "attenuate:0.5"\nattributes = "tokens=remove"\n[weight]\nFacts = 1\nStyle = 2\n'
    )
    both = run("fuse", table, "--json", "--config", config, "--weight", "Facts=5").stdout
    alone = run(
        *("fuse", table, "--json", "--set", "lower=Style", "--attributes", "tokens"),
        *("--weight", "Facts=5", "--weight", "Style=2"),
    ).stdout
    assert both == alone != ""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("wieght = 2", "'weight'"),
        ("weight = 2", "keys and values"),
        ("[weight]\nFacts = -1", "> 0"),
        ("criteria = [1]", "a text"),
        ("prior = 'x'", "a number"),
        ("any-order = 'maybe'", "true or false"),
        ("prior = ", "TOML"),
    ],
)
def test_wrong_config(table: Path, text: str, found: str) -> None:
    table.with_name("c.toml").write_text(text)
    assert found in refused("fuse", table, "--config", table.with_name("c.toml"))


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["--weight", "Facts"], "NAME=VALUE"),
        (["--weight", "Facts=0"], "> 0"),
        (["--weight", "Nope=1"], "one of 'Facts'"),
        (["--set", "margin.Facts=-1"], "≥ 0"),
        (["--set", "lower=Facts", "--low-quality", "Facts"], "that the gate reads"),
        (["--set", "adjust=remove"], "--attributes"),
        (["--attributes", "tokens", "--set", "adjust=attenuate"], "attenuate:NUMBER"),
        (["--attributes", "tokens", "--set", "adjust=attenuate:2"], "from 0 to 1"),
        (["--attributes", "tokens=remov"], "remove or attenuate:NUMBER"),
        (["--attributes", "tokns"], "Did you mean 'tokens'"),
        (["--set", "criteria=Fact"], "Did you mean 'Facts'"),
        (["--group-column", "uuid"], "'uid'"),
        (["--set", "batch_column=step"], "'uid'"),
        (["--set", "pool=all"], "'batch', 'run', 'group'"),
        (["--set", "span=wide"], "'model', 'unit'"),
        (["--set", "model=elo"], "'bradley-terry'"),
        (["--set", "prior=0"], "prior must be ≥ 1e-09"),
        (["--set", "gate.floor=0.2"], "--global-quality"),
        (["--global-quality", "Fact"], "Did you mean 'Facts'"),
        (["--low-quality", "Facts", "--set", "gate.shape=round"], "'linear'"),
        (["--low-quality", "Style"], "line 1, column 'scores.Style' must be in [0, 1]"),
        (["-o", "out.txt"], ".parquet"),
        (["-o", "out.json"], "a file that ends in .jsonl"),
        (["-o", "t.jsonl", "--force"], "another file than the input"),
        (["-o", "out.csv", "--json"], "both"),
    ],
)
def test_refusals(table: Path, arguments: list[str], found: str) -> None:
    before = table.read_bytes()
    assert found in refused("fuse", table, *arguments)
    assert [path.name for path in table.parent.iterdir()] == ["t.jsonl"]
    assert table.read_bytes() == before


def test_output_is_replaced_only_by_force(table: Path) -> None:
    out = table.with_name("out.csv")
    out.write_text("precious")
    assert "--force" in refused("fuse", table, "-o", out)
    assert out.read_text() == "precious"
    done = run("fuse", table, "-o", out, "--force")
    assert (done.exit_code, done.stdout) == (0, "")
    first, criteria = done.stderr.splitlines()
    assert first == f"4 rollouts in 2 groups, 1 without signal → {out}"
    assert criteria == "criteria: Facts, Style, Keyword"
    assert pl.read_csv(out)["reward"].to_list() == [0.5, 0.5, 0.0, 1.0]


def test_explain(table: Path) -> None:
    text = run("explain", table, "--group", "q2", "--attributes", "tokens").output
    assert "group q2: scores" in text
    assert "rollout 0 of group q2" in text
    assert "rollout 1 of group q2" in text
    assert "Style" not in text  # of the other query's rubric
    one = json.loads(
        run("explain", table, "--group", "q2", "--rollout", "1", "--json", "--attributes", "tokens").output
    )
    assert [r["rollout"] for r in one["rollouts"]] == [1]
    assert one["rollouts"][0]["outcomes"]["Keyword"] == {"beats": 1, "ties": 0, "loses": 0}
    assert one["criteria"][0]["gamma"].keys() == {"tokens"}


def test_explain_of_a_rule_without_utilities_shows_rewards_alone(table: Path) -> None:
    scale = ("--set", "domain.Style=0:10")
    text = run("explain", table, "--group", "q2", "--rule", "weighted-mean", "--attributes", "tokens", *scale).output
    assert "rewards by rollout" in text
    assert "nan" not in text
    assert "tokens: " in text


def test_explain_of_one_rollout_shows_its_comparisons_alone(tmp_path: Path) -> None:
    rows = [{"uid": "q", "scores": {"A": i, "B": i % 7}} for i in range(64)]
    (tmp_path / "s.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    text = run("explain", tmp_path / "s.jsonl", "--group", "q", "--rollout", "40").output
    assert "rollout 40 of group q" in text
    assert "more" in text  # whom it beats is folded
    assert "decided  40\n" in text  # no column of another rollout
    assert len(text.splitlines()) < 20


@pytest.mark.parametrize("name", ["rewards.txt", "rewards.csv", "rewards.jsonl.gz", "rewards.parquet", "rewards"])
def test_the_demo_writes_json_lines_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert "demo: --output must be a file that ends in .jsonl or .ndjson" in refused("demo", "-o", name)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "folder.jsonl").mkdir()
    assert "demo: --output must be a file; got the folder folder.jsonl" in refused("demo", "-o", "folder.jsonl")


def test_the_demo_replaces_nothing_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("demo_rewards.jsonl", "demo_records.jsonl", "demo_report.html"):
        Path("out").mkdir(exist_ok=True)
        kept = Path("out", name)
        kept.write_text("precious")
        assert "--force" in refused("demo")
        assert kept.read_text() == "precious"
        kept.unlink()


def test_explain_refusals(table: Path) -> None:
    assert "Did you mean 'q2'" in refused("explain", table, "--group", "q22")
    assert "from 0 to 1" in refused("explain", table, "--group", "q2", "--rollout", "2")


@pytest.mark.slow
def test_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments, path in (([], "out/demo_rewards.jsonl"), (["--output", "there/r.jsonl"], "there/r.jsonl")):
        with process("demo", *arguments) as running:
            out, err = running.communicate()
        assert (running.returncode, err) == (0, b"")
        assert path in out.decode()
        assert all("reward" in json.loads(line) for line in Path(path).read_text().splitlines())
    Path("file").touch()
    result = run("demo", "--output", "file/r.jsonl")
    assert result.exit_code == 2
    assert "file/r.jsonl" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_names_are_not_markup(table: Path) -> None:
    row = {"uid": "[bold]q[/]", "scores": {"[red]Facts": 1, "B": 2}}
    table.write_text(f"{json.dumps(row)}\n" * 2)
    assert "[red]Facts" in run("fuse", table).output
    assert "[bold]q[/]" in run("explain", table, "--group", "[bold]q[/]").output


def big(path: Path, groups: int = 40_000) -> Path:
    rows = pl.DataFrame({"uid": [g for g in range(groups) for _ in range(8)]})
    rows.with_columns(pl.int_range(pl.len()).mod(k).alias(f"c{k}") for k in (2, 3, 5, 7)).write_csv(path)
    return path


@pytest.mark.slow
def test_streams_stay_apart(table: Path) -> None:
    good = process("fuse", table, "--json")
    out, err = good.communicate()
    assert (good.returncode, err) == (0, b"criteria: Facts, Style, Keyword\n")
    assert len(out.splitlines()) == 4
    bad = process("fuse", "nowhere.csv", "--json")
    out, err = bad.communicate()
    assert (bad.returncode, out) == (2, b"")
    assert b"no such file" in err
    assert b"Traceback" not in err


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals and closed pipes work differently there")
def test_interrupted_or_cut_off(tmp_path: Path) -> None:
    path = big(tmp_path / "big.csv")
    with process("fuse", path, "--criteria", "all", "--json") as cut:
        assert cut.stdout is not None
        assert cut.stderr is not None
        assert cut.stdout.readline().startswith(b"{")
        cut.stdout.close()
        assert cut.stderr.read() == b""
    running = process("fuse", path, "--criteria", "all", "--json")
    assert running.stdout is not None
    running.stdout.readline()  # it waits until somebody reads on
    running.send_signal(signal.SIGINT)
    err = running.communicate()[1]
    assert running.returncode == 130, err
    assert b"interrupted" in err
    assert [p.name for p in tmp_path.iterdir()] == ["big.csv"]
