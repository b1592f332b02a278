"""The verifier CodeParses: parses the code blocks of an answer, and lints Python on request."""

from __future__ import annotations

import doctest
import importlib.util
import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import yaml

from rubrank.texts.text import Text
from rubrank.verifiers.shared.code_blocks import parse_python, split_fenced_blocks
from rubrank.verifiers.verifier import Answer, missing, verifier

# Other names of the languages that have a parser here
_ALIASES = {
    "py": "python",
    "python3": "python",
    "yml": "yaml",
    "sqlite": "sql",
    "postgresql": "sql",
    "mysql": "sql",
}
_MOST_CHARACTERS = 200_000
_LINT_SECONDS = 20


def _find_name(tag: str) -> str:
    """Return the name of a language here: "py" → "python"."""
    return _ALIASES.get(tag.lower(), tag.lower())


def find_syntax_error(language: str, source: str) -> str | None:
    """Return what is wrong with a source; None if nothing is. Raises LookupError if no parser knows the language."""
    language = _find_name(language)
    if language == "sql" and importlib.util.find_spec("sqlglot") is None:
        raise LookupError("sqlglot is not installed: pip install 'rubrank[sql]'")
    if language not in _PARSERS:
        raise LookupError(
            f"no parser for {language!r}; there is one for {', '.join(sorted(_PARSERS))}"
        )
    try:
        _PARSERS[language](source[:_MOST_CHARACTERS])
    except Exception as error:  # every parser raises errors of its own
        return f"{language} that does not parse: {' '.join(str(error).split())}"[:200]
    return None


def drop_prompts(source: str) -> str:
    """Return the statements of a Python session (after >>> and ...) without its outputs; other sources unchanged."""
    if not source.lstrip().startswith(">>>"):
        return source
    examples = doctest.DocTestParser().get_examples(source.replace("\t", "    "))
    return "".join(example.source for example in examples)


def _parse_yaml(source: str) -> None:
    for _ in yaml.parse(source, Loader=yaml.SafeLoader):
        pass


def _parse_xml(source: str) -> None:
    if "<!ENTITY" in source:
        raise ValueError("entities are not read")
    ElementTree.fromstring(source.strip())


def _parse_sql(source: str) -> None:
    import sqlglot

    statements = sqlglot.parse(source)
    if not any(statements):
        raise ValueError("no statement")


_PARSERS: dict[str, Callable[[str], Any]] = {
    "python": lambda source: parse_python(drop_prompts(source)),
    "json": json.loads,
    "yaml": _parse_yaml,
    "toml": tomllib.loads,
    "xml": _parse_xml,
    "sql": _parse_sql,
}


def _find_needs(params: Any) -> tuple[str, str] | None:
    return ("ruff", "lint") if params.lint else None


@verifier("CodeParses", family="code", version=2, cost="process", needs=_find_needs)
def code_parses(text: Text, *, language: str | None = None, lint: bool = False) -> Answer:
    """Every code block of the answer parses: Python, JSON, YAML, TOML, XML, SQL (extra [sql]).

    `language` takes the blocks of that language, or without any the whole answer; blocks without a tag are read as it.
    Of a Python session (`>>> 1 + 1`) the statements are read, and its outputs are not.
    `lint` also asks ruff (extra [lint]) for undefined names and the like (rules E9 and F).
    Passes: a block with `def f(): ...`.
    Fails: `def f(:`; no block; a block that never closes is read to its end.
    Missing: only blocks in languages without a parser here, or without a tag.
    Not covered: whether the code runs or is right (CodePasses).
    """
    blocks = [
        (tag or language or "", code) for tag, code in split_fenced_blocks(text.raw) if code.strip()
    ]
    if language is not None:
        name = _find_name(language)
        blocks = [(tag, code) for tag, code in blocks if _find_name(tag) == name]
        if not blocks and "```" not in text.raw and text.raw.strip():
            blocks = [(language, text.raw)]
    if not blocks:
        return False, "no code block"
    unread = ""
    parsed = 0
    for tag, code in blocks:
        try:
            problem = find_syntax_error(tag, code)
        except LookupError as error:
            unread = str(error)
            continue
        if problem is None and lint and _find_name(tag) == "python":
            problem = _lint_python(drop_prompts(code))
        if problem:
            return False, problem
        parsed += 1
    if not parsed:
        return missing(unread)
    reason = f"{parsed} of {len(blocks)} block(s) parse"
    if unread:
        reason += f"; {unread}"
    return True, reason


def _lint_python(source: str) -> str | None:
    """Return the first finding of ruff's rules E9 and F, except F401: a snippet may import names for later use."""
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--quiet",
        "--select=E9,F",
        "--ignore=F401",
        "--output-format=concise",
        "--no-cache",
        "-",
    ]
    process = subprocess.run(
        command,
        input=source[:_MOST_CHARACTERS],
        capture_output=True,
        text=True,
        check=False,
        timeout=_LINT_SECONDS,
    )
    if process.returncode > 1:
        raise OSError(f"ruff failed: {process.stderr[:200]}")
    lines = process.stdout.splitlines()
    return f"ruff: {lines[0].removeprefix('-:')}" if lines else None
