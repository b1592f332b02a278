"""Whatever is wrong on the command line is named by its flag, not by a keyword of Python."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from cases import Cases, folded
from fuzz.command_lines import SOURCES, VERBS
from rich.text import Text
from typer.testing import CliRunner

import rubrank
from rubrank.cli.app import app
from rubrank.cli.terminal import print_warnings_in_one_line

WRONG = ("-7", "no-such")
# Looked at after the model, which these tests have not; and "" is this folder, whose files are named.
LATER = {("train", "--branch"), ("report", "--eval")}
JOB = "model: {path: nowhere}\nstages: [{steps: 1, sources: [{path: r.jsonl}]}]\nrubric: rubric.yaml\noutput: made\n"
FILES = {
    **SOURCES,
    "job.yaml": JOB,
    "wrong.toml": 'seed = "x"',
    "weights.toml": "weight = {A = 2}",
    "minus.toml": "weight = {S = -1}",
}
RUBRANK = typer.main.get_command(app)


def command_of(words: list[str]) -> tuple[str, object]:
    """The verb that a line begins with, such as "judge audit"."""
    command, path = RUBRANK, []
    for word in words:
        if not hasattr(command, "commands"):
            break
        command = command.commands[word]
        path.append(word)
    return " ".join(path), command


LINES = {command_of(line)[0]: line for line in reversed(VERBS)}


def values_of(command: object) -> list[tuple[str, str]]:
    """Flags that take a value, and what stands before it: --set has a key; those of a rule are tried once."""
    options = [p for p in command.params if p.param_type_name == "option" and not p.is_flag]  # type: ignore[attr-defined]
    flags = [(option.opts[0], "") for option in options if option.opts[0] != "--set"]
    keys = command.setting_keys if command.name == "fuse" else ()  # type: ignore[attr-defined]
    return flags + [("--set", f"{key}=") for key in keys if key not in ("gate", "model")]


VALUED = [verb for verb in LINES if values_of(command_of(LINES[verb])[1])]


@pytest.mark.parametrize("verb", [v if v != "train" else pytest.param(v, marks=pytest.mark.slow) for v in VALUED])
def test_what_is_wrong_is_named_by_its_flag(verb, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text, encoding="utf-8")
    with Cases() as cases:
        for flag, before in values_of(command_of(LINES[verb])[1]):
            if (verb, flag) in LATER:
                continue
            for wrong in WRONG:
                for made in (*tmp_path.glob("out*"), *tmp_path.glob("records*")):
                    made.unlink()
                with cases(flag, before, repr(wrong)):
                    found = CliRunner().invoke(app, [*LINES[verb], flag, f"{before}{wrong}"])
                    assert found.exit_code in (0, 1, 2)
                    if found.exit_code == 2:
                        key = before.rstrip("=")
                        names = (wrong, key, f"--{key.replace('_', '-')}") if key else (wrong, flag)
                        assert any(name in found.stderr for name in names)


@folded(
    ("line", "expected"),
    [
        ("fuse wide.csv --set prior=-1", "rubrank: fuse: --set prior must be ≥ 1e-09; got '-1'."),
        ("fuse wide.csv --set gate.floor=2", "rubrank: fuse: --set gate.floor must be ≤ 1; got '2'."),
        ("fuse wide.csv --rule focal --set gate.lift=0", "rubrank: fuse: --set gate must be given for a name with"),
        ("fuse wide.csv --group-column x", "rubrank: fuse: wide.csv: --group-column must be one of"),
        (
            "grade r.jsonl -r none.yaml",
            "rubrank: none.yaml: the file must be a file that can be read; got no such",
        ),
        ("grade r.jsonl -r wide.csv", "rubrank: wide.csv: the file must be a file that ends in .yaml, .yml"),
        ("fuse none.csv", "rubrank: none.csv: the file must be a file that can be read; got no such file."),
        ("fuse job.txt", "rubrank: job.txt: the file must be a file that can be read; got no such file."),
        ("fuse wide.csv -o out.txt", "rubrank: fuse: --output must be a file that ends in .jsonl"),
        (
            "report wide.csv -o out.txt",
            "rubrank: report: --output must be a file that ends in .html or .htm",
        ),
        ("fuse wide.csv --weight F=-2", "rubrank: fuse: --weight F must be > 0; got '-2'."),
        ("fuse wide.csv --set margin.F=-2", "rubrank: fuse: --set margin.F must be ≥ 0; got '-2'."),
        ("fuse wide.csv --set domain.A=5:1", "rubrank: fuse: --set domain must be LOW:HIGH, two finite numbers"),
        ("fuse wide.csv --config wrong.toml", "rubrank: wrong.toml: seed must be a whole number; got 'x'."),
        ("fuse wide.csv --config minus.toml --weight F=2", "rubrank: minus.toml: weight.S must be > 0; got -1."),
        ("fuse wide.csv --config minus.toml --set weight.F=2", "rubrank: minus.toml: weight.S must be > 0; got -1."),
        ("robustness wide.csv --map ,", "rubrank: robustness: --map must be names such as a,b,c; got ','."),
        ("fuse wide.csv --set attributes.foo=tokens", "rubrank: fuse: --set must be one of"),
        ("fuse wide.csv --config weights.toml --weight A", "rubrank: fuse: --weight must be NAME=VALUE; got 'A'."),
        ("fuse wide.csv -o .", "rubrank: fuse: --output must be a file that ends in"),
        ("demo -o .", "rubrank: demo: --output must be a file that ends in .jsonl or .ndjson; got '.'."),
        ("lab report --markdown .", "rubrank: lab report: --markdown must be a file that ends in .md; got '.'."),
        ("conformance r.jsonl", "rubrank: r.jsonl: row 1: instruction_id_list must be given"),
        ("grade r.jsonl --timeout 5 --workers 0 -r gates", "rubrank: grade: --timeout must be left out with 0 workers"),
        (
            "grade r.jsonl -r judged.yaml",
            "rubrank: grade: --judges must be given: only a judge can decide 'Kind'; got none. Name a file of",
        ),
        ("fuse wide.csv --prior 2", "rubrank: fuse: no such option: --prior. Use --set prior=VALUE. See"),
        (
            "fuse wide.csv --gate-floor 2",
            "rubrank: fuse: no such option: --gate-floor. Use --set gate.floor=VALUE.",
        ),
        ("replay wide.csv --rules nope", "rubrank: replay: --rules must be one of"),
        ("judge audit wide.csv --picture a.txt", "rubrank: judge audit: --picture must be a file that ends in .png"),
    ],
)
def test_messages(line, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text, encoding="utf-8")
    found = CliRunner().invoke(app, line.split())
    assert found.exit_code == 2
    last = found.stderr.strip().splitlines()[-1]
    assert last.startswith(expected), last


def test_an_unknown_option_that_is_nearly_one_of_ours(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(app, ["fuse", "wide.csv", "--rlue", "borda"])
    assert found.exit_code == 2
    assert "--rule" in found.stderr


def test_a_warning_of_the_library_is_one_line(capsys):
    with warnings.catch_warnings(record=True) as others:
        warnings.simplefilter("always")
        with print_warnings_in_one_line():
            warnings.warn_explicit("left out", RuntimeWarning, rubrank.__file__, 1)
            warnings.warn_explicit("theirs", RuntimeWarning, "/elsewhere/module.py", 1)
    assert capsys.readouterr().err == "rubrank: warning: left out\n"
    assert [str(one.message) for one in others] == ["theirs"]


def helps(command: typer.core.TyperCommand) -> Iterator[str]:
    yield from (text for text in (command.help, *(getattr(one, "help", None) for one in command.params)) if text)
    for below in getattr(command, "commands", {}).values():
        yield from helps(below)


def test_help_shows_its_brackets():
    """Rich takes [words] for markup and leaves them out, unless the bracket is escaped."""
    shown = {text: Text.from_markup(text).plain for text in helps(RUBRANK)}
    assert [text for text, plain in shown.items() if plain != text.replace("\\[", "[")] == []


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        (["--weight", "F=2", "--weight", "F=3"], "--weight must be one value for each name; got two for 'F'"),
        (["--set", "weight.F=2", "--set", "weight.F=3"], "--set weight.F must be given once"),
        (["--set", "weight.F=2", "--set", "weight=F=3"], "--set weight.F must be given once"),
        (["--set", "prior=2", "--set", "prior=3"], "--set prior must be given once"),
        (["--rule", "gdpo", "--rule", "rlvr2"], "--rule must be given once"),
        (["--output", "a.csv", "-o", "b.csv"], "--output must be given once"),
    ],
)
def test_an_option_with_one_value_is_given_once(tmp_path, options, flag):
    path = tmp_path / "scores.csv"
    path.write_text("uid,F,G\nq,1,0\nq,0,1\n")
    result = CliRunner().invoke(app, ["fuse", str(path), "--criteria", "all", *options])
    assert result.exit_code == 2
    assert flag in " ".join(result.output.split())
    repeatable = ["--weight", "F=2", "--weight", "G=3", "--set", "lower=F", "--set", "margin.F=0.1"]
    assert CliRunner().invoke(app, ["fuse", str(path), "--criteria", "all", *repeatable]).exit_code == 0


def test_a_flag_means_the_same_in_every_verb():
    """--judges names a file of judges, --column FIELD=COLUMN, --batch the batch API of judges."""
    flags: dict[str, set[str]] = {}
    for verb, command in list_commands(typer.main.get_command(app)):
        for parameter in command.params:
            for flag in parameter.opts:
                flags.setdefault(flag, set()).add(verb)
    assert "--judge" not in flags
    assert len(flags["--judges"]) >= 5
    assert flags["--batch"] == {"grade"}


def list_commands(command, name=""):
    if not hasattr(command, "commands"):
        yield name, command
        return
    for inner_name, inner in command.commands.items():
        yield from list_commands(inner, f"{name} {inner_name}".strip())
