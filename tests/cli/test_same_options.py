"""Every verb that fuses takes every rule and the same options, from flags and from files, with the same words."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import typer
from cases import folded
from typer.testing import CliRunner

from rubrank.cli.app import app
from rubrank.cli.common import ColumnOptions, TableOptions
from rubrank.options import FuseOptions
from rubrank.records.files import read_records
from rubrank.studies.logged import read_logged
from rubrank.studies.replay import replay
from rubrank.studies.robustness import robustness
from rubrank.tables.columns import Columns

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
VERBS = ("fuse", "explain", "record", "replay", "robustness", "report")
LINES = {
    "fuse": ["fuse", "s.csv", "--criteria", "F,S", "-o", "out.csv", "--force"],
    "explain": ["explain", "s.csv", "--criteria", "F,S", "--group", "q1"],
    "record": ["record", "s.csv", "--criteria", "F,S", "-o", "out.jsonl", "--force"],
    "replay": ["replay", "s.csv", "--criteria", "F,S", "--json"],
    "robustness": ["robustness", "s.csv", "--criteria", "F,S", "--json"],
    "report": ["report", "s.csv", "--criteria", "F,S", "-o", "out.html", "--force"],
}


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(4)
    rows = ["group,F,S,tokens"]
    for g in range(10):
        for _ in range(4):
            tokens = int(rng.integers(5, 500))
            rows.append(f"q{g},{rng.integers(0, 2)},{min(1.0, tokens / 500 * rng.random() + 0.2):.2f},{tokens}")
    Path("s.csv").write_text("\n".join(rows) + "\n")
    return tmp_path


def run(*line):
    return CliRunner().invoke(app, list(line))


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_every_option_of_a_fusion(verb):
    command = COMMANDS[verb]
    assert set(command.setting_keys) >= {*ColumnOptions.model_fields, *FuseOptions.model_fields}
    help_text = run(verb, "--help").stdout
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    assert len(options) <= 15
    assert "--config" in help_text
    assert "--group-column" in help_text


def test_where_a_table_holds_what_is_said_in_the_same_words():
    for name, field in ColumnOptions.model_fields.items():
        assert TableOptions.model_fields[name].description == field.description
        assert TableOptions.model_fields[name].default == field.default
        for command in (COMMANDS["bench"].commands["fusion"], COMMANDS["judge"].commands["audit"]):
            (option,) = [p for p in command.params if p.name == name]
            assert option.help == field.description


OPTIONS = [
    {"rule": "gdpo+", "weight": {"F": 3.0}},
    {"rule": "rlvr2", "margin": {"S": 0.1}, "span": "unit"},
    {"rule": "weighted-mean+", "low_quality": ["S"], "gate": {"floor": 0.1, "lift": 0.0}},
    {"rule": "rlvr2*focal+", "global_quality": ["F"], "lower": ["S"], "prior": 0.5},
    {"rule": "rlvr2+", "attributes": ["tokens"], "adjust": "attenuate:0.5", "adjust_criteria": ["all"]},
]


def flags(options):
    """The options as --set says them."""
    for name, value in options.items():
        if isinstance(value, dict):
            yield from (word for key, inner in value.items() for word in ("--set", f"{name}.{key}={inner}"))
        else:
            items = value if isinstance(value, list) else [value]
            yield from (word for item in items for word in ("--set", f"{name}={item}"))


def rewards(verb, *line):
    """What a verb says the rewards are; for replay and robustness, what it shows instead."""
    done = run(*LINES[verb], *line)
    assert done.exit_code == 0, done.output
    if verb == "fuse":
        lines = Path("out.csv").read_text().splitlines()
        at = lines[0].split(",").index("reward")
        return [float(line.split(",")[at]) for line in lines[1:]]
    if verb == "record":
        return [x for record in read_records(Path("out.jsonl")) for x in record.reward]
    if verb == "report":
        return done.stderr.splitlines()
    found = json.loads(done.stdout) if verb != "explain" else done.stdout
    for rule in found.get("rules", ()) if isinstance(found, dict) else ():
        del rule["seconds_per_step"]
    return found


@pytest.mark.slow
@folded("options", OPTIONS)
@pytest.mark.usefixtures("table")
def test_flags_and_files_say_the_same_to_every_verb(options):
    Path("options.json").write_text(json.dumps({**options, "group-column": "group"}))
    for verb in VERBS:
        by_flags = rewards(verb, *flags(options), "--group-column", "group")
        assert rewards(verb, "--config", "options.json") == by_flags
    assert rewards("fuse", *flags(options)) == rewards("record", *flags(options))
    assert f"Fused by {options['rule']}." in rewards("report", *flags(options))[0]


@folded("options", OPTIONS)
@pytest.mark.usefixtures("table")
def test_python_says_the_same(options):
    given = FuseOptions.model_validate(options)
    logged = read_logged("s.csv", None, Columns(criteria="all", attributes=given.attribute_names))
    columns = {"attributes": logged.attributes, "attribute_names": logged.attribute_names}
    found = replay(logged.table, [given.rule], options=given, **columns)
    assert found.rules[0].reward.tolist() == rewards("fuse", *flags(options))
    rows = [row.as_dict() for row in robustness(logged.table, rules=[given.rule], options=given, **columns)]
    assert rewards("robustness", *flags(options))["rows"] == json.loads(json.dumps(rows))


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("verb", ["replay", "robustness"])
def test_one_rule_or_several(verb):
    one = run(*LINES[verb], "--set", "rule=gdpo+")
    assert one.exit_code == 0, one.output
    assert '"gdpo+"' in one.stdout
    assert '"rlvr2' not in one.stdout
    Path("options.toml").write_text('rule = "gdpo+"\n')
    several = run(*LINES[verb], "--rules", "borda,copeland", "--config", "options.toml")
    assert '"borda"' in several.stdout  # the command line wins
    assert '"gdpo+"' not in several.stdout


@pytest.mark.usefixtures("table")
def test_records_are_reported_as_they_were_fused():
    run(*LINES["record"], "--rule", "gdpo+")
    assert run("report", "out.jsonl", "-o", "out.html").exit_code == 0
    done = run("report", "out.jsonl", "-o", "again.html", "--set", "prior=2")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "report: --set prior must be given with scores or rollouts; got records: out.jsonl" in done.stderr


@folded("verb", ["record", "replay", "robustness", "report"])
@pytest.mark.usefixtures("table")
def test_an_attribute_that_is_not_there_is_named(verb):
    done = run(*LINES[verb], "--attributes", "words")
    assert done.exit_code == 2
    assert (
        f"rubrank: {verb}: s.csv: --attributes must be one of 'F', 'S', 'group', 'tokens'; got 'words'" in done.stderr
    )


@pytest.mark.usefixtures("table")
def test_a_map_of_a_gate_is_refused():
    done = run(*LINES["robustness"], "--transform", "F^2", "--global-quality", "F")
    assert done.exit_code == 2
    assert "rubrank: robustness: --transform must be one of 'S'; got 'F'" in done.stderr


@folded("verb", ["fuse", "record", "replay", "robustness", "report"])
@pytest.mark.usefixtures("table")
def test_options_of_a_gate_that_is_not_there_are_refused(verb):
    done = run(*LINES[verb], "--set", "gate.lift=0")
    assert done.exit_code == 2
    # `report` has no flags for gates: they are settings there.
    flags = "--set global_quality or --set low_quality" if verb == "report" else "--global-quality or --low-quality"
    assert f"rubrank: {verb}: --set gate.lift must be given with a gate: {flags}" in done.stderr


@folded(
    ("line", "said"),
    [
        ("fuse --rule gdpo*focal", "fuse: rule before '*' must be 'rlvr2'; got 'gdpo'"),
        (
            "fuse --set domain.F=0:inf",
            "fuse: --set domain must be LOW:HIGH, two finite numbers of which the second is larger",
        ),
        (
            "record --set domain.F=1:1",
            "record: --set domain must be LOW:HIGH, two finite numbers of which the second is larger",
        ),
        ("fuse --attributes S --set adjust=attenuate:2", "fuse: --set adjust must be remove or attenuate:NUMBER"),
        ("report --attributes S --set adjust=attenuate:nan", "report: --set adjust must be remove or attenuate:NUMBER"),
        (
            "fuse --attributes tokens --set adjust_criteria=G",
            "fuse: --set adjust_criteria must be one of 'F', 'S'; got 'G'",
        ),
        (
            "record --attributes tokens --set adjust_criteria=G",
            "record: --set adjust_criteria must be one of 'F', 'S'; got 'G'",
        ),
        ("fuse --set long=3", "fuse: --set long must be true or false; got '3'"),
        (
            "fuse --set gate.flor=3",
            "fuse: --set gate.flor must be left out (unknown key); got '3'. Did you mean",
        ),
        ("fuse --set wieght.F=3", "fuse: --set must be one of"),
        ("fuse --set pool", "fuse: --set must be KEY=VALUE; got 'pool'"),
        ("replay --transform G*2", "replay: --transform must be one of 'F', 'S'; got 'G'"),
        ("robustness --set group_size=77", "robustness: the table must be one with rollouts; got none left"),
        ("robustness --set unique=true", "robustness: texts of the rollouts must be given if responses must be unique"),
        ("fuse --global-quality F --global-quality S", "fuse: the gate must be on some of the criteria; got all"),
        ("fuse --config three.yaml", "three.yaml: the config must be keys and values; got a number"),
        ("fuse --config nothing.yaml --rule x", "fuse: --rule must be one of"),
    ],
)
@pytest.mark.usefixtures("table")
def test_messages_name_verbs_and_flags(line, said):
    Path("three.yaml").write_text("3\n")
    Path("nothing.yaml").write_text("{}\n")
    verb, *rest = line.split()
    done = run(*LINES[verb], *rest)
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1].startswith(f"rubrank: {said}")
