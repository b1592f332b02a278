"""Tables on the terminal: nothing is lost at any width; the progress bar keeps out of the way."""

from __future__ import annotations

import json

import numpy as np
import pytest
import typer
from rich.cells import cell_len

from rubrank.cli.command import print_errors_in_one_line
from rubrank.cli.terminal import format_number, print_json, print_line, print_matrix, print_table, say
from rubrank.cli.verbs.fuse import show_group
from rubrank.errors import RubrankError
from rubrank.fusion.rlvr2 import RLVR2
from rubrank.grading.progress import Bar
from rubrank.scores.batch import ScoreBatch

NAMES = ["length_constraints:number_paragraphs", "Coverage of the material", "深度和广度", "[bold]Facts[/]", "F"]


def group_of(G: int):
    scores = np.random.default_rng(G).random((G, len(NAMES)))
    return next(iter(RLVR2()(ScoreBatch.of_arrays(scores, criteria=NAMES))))


@pytest.mark.parametrize("width", [60, 80, 160])
@pytest.mark.parametrize("G", [2, 8, 16, 64])
def test_an_explanation_keeps_names_and_numbers_at_every_width(G, width, monkeypatch, capsysbinary):
    monkeypatch.setenv("COLUMNS", str(width))
    group = group_of(G)
    show_group(group, None)
    tables = capsysbinary.readouterr().out.decode().split(f"rollout 0 of group {group.label}")[0]
    assert max(cell_len(line) for line in tables.splitlines()) <= width
    together = "".join(tables.split())
    for name in NAMES[1:]:  # the first may be folded
        assert "".join(name.split()) in together
    for k in range(len(NAMES)):
        for score in group.scores[:, k]:
            assert f"{score:.4g}" in tables


def test_words_fold_and_numbers_do_not(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    print_table(
        "t", ["name", "n", "interval"], [["a long name of many words that folds", "1,000", "0.62 [0.60, 0.64]"]]
    )
    lines = capsys.readouterr().out.splitlines()
    assert any("0.62 [0.60, 0.64]" in line for line in lines)
    assert any("1,000" in line for line in lines)
    assert max(map(len, lines)) <= 40


def test_rows_beyond_the_limit_are_counted(capsys):
    print_table("t", ["name"], [[str(i)] for i in range(50)], most=40)
    assert "… and 10 more" in capsys.readouterr().out
    print_table("t", ["name"], [[str(i)] for i in range(50)], most=None)
    assert "more" not in capsys.readouterr().out


def test_columns_get_numbers_where_their_names_do_not_fit(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    rules = [f"a-rule-with-a-name-{i}" for i in range(12)]
    print_matrix("m", rules, rules, [[f"{i * j:.2f}" for j in range(12)] for i in range(12)])
    text = capsys.readouterr().out
    assert "m, continued" in text
    assert all(rule in text for rule in rules)
    assert "121.00" in text


COMMANDS = [chr(c) for c in (*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0))]


def test_no_text_commands_the_terminal(capsysbinary):
    text = "".join(COMMANDS) + "\x1b[2J\x1b]0;title\x07é深\t|"
    print_table(text, [text, text], [[text, text], ["a", "1"]])
    print_line(text)
    say(text)
    captured = capsysbinary.readouterr()
    for shown in (captured.out.decode(), captured.err.decode()):
        assert not set(COMMANDS) & set(shown)
        assert "é深" in shown


def test_json_is_the_same_text_without_commands(capsysbinary):
    print_json({"name": "".join(COMMANDS)})
    shown = capsysbinary.readouterr().out.decode()
    assert not set(COMMANDS) & set(shown)
    assert json.loads(shown) == {"name": "".join(COMMANDS)}


def test_a_share_is_never_minus_zero(capsysbinary):
    show_group(next(iter(RLVR2()(ScoreBatch.of_arrays([[1, 0], [0, 1]])))), None)
    assert b"-0%" not in capsysbinary.readouterr().out


def test_a_bar_that_nobody_sees_prints_nothing(capsys):
    with Bar("judging") as bar:
        bar(1, 2)
        bar.tell("cost 1")
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_a_bar_on_a_terminal_says_how_far_and_what_it_cost(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("rubrank.grading.progress.SECONDS_BEFORE_BAR", 0.0)
    with Bar("judging [x]") as bar:
        bar.tell("cost 0.25, 3 failed")
        bar(5, 20)
    said = capsys.readouterr().err
    assert "judging [x]" in said
    assert "5/20" in said
    assert "cost 0.25, 3 failed" in said


def test_what_is_noted_about_an_error_is_in_its_line(capsys):
    error = RubrankError("the judges do not answer.")
    error.add_note("No checkpoint could be saved: OSError: full")
    with pytest.raises(typer.Exit), print_errors_in_one_line(None):
        raise error
    assert capsys.readouterr().err == (
        "rubrank: the judges do not answer. No checkpoint could be saved: OSError: full\n"
    )


def test_the_total_is_printed_below_rows_that_are_left_out(capsys):
    rows = [*([f"row {i}", str(i)] for i in range(9)), ["all", "36"]]
    print_table("", ["", "n"], rows, most=4, total=1)
    lines = capsys.readouterr().out.split("\n")
    assert [line.split("  ")[0].strip() for line in lines[1:5]] == ["row 0", "row 1", "row 2", "all"]
    assert "… and 6 more" in "\n".join(lines)


def test_numbers_with_commas_between_thousands():
    assert format_number(1234.5, ",.1f") == "1,234.5"
