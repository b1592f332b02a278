"""The verbs about rubrics: `check` lists what is wrong with one, `lint` what is weak, `criteria` shows the library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rubrank.cli.command import add_verb
from rubrank.cli.common import AsJson
from rubrank.cli.terminal import print_json, print_line, print_table, say
from rubrank.errors import counted

if TYPE_CHECKING:
    from rubrank.cli.catalogue import CriterionEntry

_LONGEST_EXAMPLE = 300  # characters
_EXAMPLE_SETTINGS = ("params", "siblings", "compat", "mode", "rollout")


def register(app: typer.Typer) -> None:
    """Add the verbs to a command line."""
    add_verb(app, check)
    add_verb(app, lint)
    add_verb(app, criteria)


def check(
    file: Annotated[
        str,
        typer.Argument(
            help="A rubric (YAML, TOML, JSON), a preset, or a dataset whose rows have rubrics."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """List all mistakes in a rubric or a dataset; nothing is graded. Exit code 1 if there are any."""
    from rubrank.rubrics.checks import check_file, make_note

    problems = check_file(file)
    if as_json:
        print_json([vars(problem) for problem in problems])
    else:
        for problem in problems:
            print_line(str(problem))
        say(f"{file}: {counted(len(problems), 'problem') if problems else 'no problems'}")
        if not problems and (note := make_note(file)):
            say(f"note: {note}")
    if problems:
        raise typer.Exit(1)


def lint(
    rubric: Annotated[str, typer.Argument(help="A rubric (YAML, TOML, JSON) or a preset.")],
    records: Annotated[
        Path | None,
        typer.Option(
            help="Records of a run with this rubric, to find weaknesses that show in its scores."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the weaknesses of a rubric, with evidence and a suggestion. Exit code 1 if there are any."""
    from rubrank.drafting.lint import lint_rubric
    from rubrank.records.files import read_records
    from rubrank.rubrics.rubric import load_rubric

    run = None if records is None else read_records(records)
    findings = lint_rubric(load_rubric(rubric), run)
    if as_json:
        print_json([finding.to_dict() for finding in findings])
    else:
        for finding in findings:
            print_line(f"{finding.kind}: {finding}")
        say(f"{rubric}: {counted(len(findings), 'finding') if findings else 'nothing found'}")
    if findings:
        raise typer.Exit(1)


def _complete(field: str) -> Callable[[str], list[str]]:
    """Return the completion, in the shell, of a name or family of criteria."""

    def complete(incomplete: str) -> list[str]:
        from rubrank.cli.catalogue import find_criteria

        values = {getattr(criterion, field) for criterion in find_criteria()}
        return sorted(value for value in values if value.startswith(incomplete))

    return complete


_complete_name = _complete("name")
_complete_family = _complete("family")


def criteria(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Show this criterion: what it checks, its parameters, and examples.",
            autocompletion=_complete_name,
        ),
    ] = None,
    family: Annotated[
        str | None, typer.Option(help="Only this family.", autocompletion=_complete_family)
    ] = None,
    search: Annotated[
        str | None, typer.Option(help="Only criteria that match these words, such as 'unit test'.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the criteria of the library, or show one with its examples and the line to put into a rubric."""
    from rubrank.cli.catalogue import describe, find_criteria

    if name is not None:
        criterion = describe(name)
        if as_json:
            print_json(criterion.to_dict())
        else:
            _show_criterion(criterion)
        return
    matches = find_criteria(family, search)
    if as_json:
        print_json([criterion.to_dict() for criterion in matches])
    elif matches:
        rows = [(c.name, c.family, c.how, c.checks) for c in matches]
        print_table("", ("name", "family", "by", "checks"), rows, words=4, most=None)
        say(counted(len(rows), "criterion"))
    else:
        say(f"no criterion matches {search!r}.")
        say("Try other or fewer words, ask a judge your own question (rubrank help rubrics),")
        say("or write a verifier (rubrank help extending).")
        raise typer.Exit(1)


def _show_criterion(criterion: CriterionEntry) -> None:
    """Print what a criterion checks, a line for a rubric, its parameters and its examples."""
    from rubrank.cli.catalogue import write_yaml_line

    print(f"{criterion.name}: {criterion.checks}" if criterion.checks else criterion.name)
    version = "" if criterion.version is None else f", version {criterion.version}"
    facts = f"family {criterion.family}, decided by {criterion.how}, values {criterion.values}, layer {criterion.layer}"
    print(f"{facts}{version}\n")
    print(f"  {write_yaml_line(criterion)}\n")
    if criterion.doc:
        print(criterion.doc + "\n")
    for parameter in criterion.parameters:
        default = "required" if parameter.required else f"default {parameter.default!r}"
        print(f"  {parameter.name}: {parameter.type} ({default})")
    for example in criterion.examples:
        settings = [f"{key}={example[key]}" for key in _EXAMPLE_SETTINGS if example.get(key)]
        note = f"  # {example['note']}" if example.get("note") else ""
        print(f"\n  [{example.get('kind', 'example')}] {' '.join(settings)}{note}")
        text = str(example.get("text", ""))
        if len(text) > _LONGEST_EXAMPLE:
            text = text[: _LONGEST_EXAMPLE - 1] + "…"
        value = "missing" if example.get("value") is None else f"{example['value']:g}"
        print(f"    {text!r} → {value}")
