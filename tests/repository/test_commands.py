"""Every command in the documentation exists, with the options that it is shown with."""

from __future__ import annotations

import re
from pathlib import Path

import typer

from rubrank.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(ROOT / "docs").rglob("*.md"),
    *ROOT.glob("recipes/*/README.md"),
]
COMMAND = re.compile(r"(?:^|[`$(]|\s)rubrank ((?:[a-z][a-z-]*)(?: [^`#|\n]*)?)")


ROOT_COMMAND = typer.main.get_command(app)  # takes 20 ms, and there are hundreds of lines


def find_verb(words):
    """The command that the words call, and the words after it; None if there is no such verb."""
    command = ROOT_COMMAND
    for position, word in enumerate(words):
        if not hasattr(command, "commands"):
            return command, words[position:]
        if word not in command.commands:
            return None, words[position:]
        command = command.commands[word]
    return command, []


def list_commands():
    """(page, command) of everything in code blocks of a shell and in inline code."""
    for page in PAGES:
        if "log" in page.parts:
            continue  # it tells what was
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        language = None
        for line in text.splitlines():
            fence = re.match(r"\s*(?:```+|~~~+)(\w*)", line)
            if fence:
                language = fence[1] or "text" if language is None else None
            elif language in ("sh", "console", "text", "bash"):
                yield from ((page.name, match[0].strip(" `$(")) for match in COMMAND.finditer(line))
            elif language is None:
                indented = [line] if line.startswith("    rubrank ") else []
                for code in [*indented, *re.findall(r"`(rubrank [^`]*)`", line)]:
                    yield from ((page.name, match[0].strip(" `$(")) for match in COMMAND.finditer(code))


def test_every_command_of_the_documentation_exists():
    wrong = []
    count = 0
    for page, line in list_commands():
        words = line.split()[1:]
        command, rest = find_verb(words)
        if command is None:
            # Not a command: "rubrank and what it needs"; a misspelt verb is followed by an option or a file.
            if any(word.startswith("--") for word in rest):
                wrong.append((page, line, "no such verb"))
            continue
        count += 1
        known = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
        known |= {"--help", "-h", "--version", "--install-completion", "--show-completion"}
        for word in rest:
            flag = re.match(r"\[?(--?[a-z][a-z-]*)", word)
            if flag and flag[1] not in known:
                wrong.append((page, line, flag[1]))
    assert count > 150
    assert wrong == []
