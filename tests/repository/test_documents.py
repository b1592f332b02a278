"""README, docs and docstrings: every example runs and prints what it says, every link leads somewhere.

In a Markdown file the ```python blocks are run in order by pytest-examples, in one namespace and an empty directory.

- What a `print` gives stands under it: `#> [1, 2]`, or a string of several lines. `make docs-output` writes these.
- A ```text block right after a ```python block is, instead, all that the block prints.
"""

from __future__ import annotations

import doctest
import importlib
import io
import re
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from numba.core.annotations import type_annotations
from pytest_examples import CodeExample, EvalExample, find_examples

# While an example runs, pytest-examples replaces `print` by one that walks the stack. numba prints thousands of lines
# into a buffer when it saves a kernel, so an example that compiles one took minutes. numba keeps the usual `print`.
type_annotations.print = print

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "rubrank"
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(p for d in ("docs", "examples", "recipes") for p in (ROOT / d).rglob("*.md"))]
)
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<source>.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)
OUTPUT = re.compile(r"```\n\s*```text\n(?P<printed>.*?)```", re.DOTALL)


def examples_of(path: Path) -> list[CodeExample]:
    """The ```python blocks; ```py marks those that need more than is installed here."""
    return [example for example in find_examples(path) if example.prefix.split()[:1] == ["python"]]


def output_after(example: CodeExample) -> str | None:
    """What stands in a ```text block right after the example."""
    rest = example.path.read_text(encoding="utf-8")[example.end_index :]
    after = OUTPUT.match(rest)
    return None if after is None else after["printed"]


def run_document(path: Path, runner: EvalExample, capsys: pytest.CaptureFixture[str]) -> None:
    runner.set_config(line_length=120)
    names: dict[str, object] = {}
    for example in examples_of(path):
        try:
            names |= run_example(example, runner, capsys, names)
        except Exception as error:  # the traceback of pytest-examples has no frame that pytest could show
            raise AssertionError(f"{example}: {type(error).__name__}: {error}") from None


def run_example(
    example: CodeExample, runner: EvalExample, capsys: pytest.CaptureFixture[str], names: dict[str, object]
) -> dict[str, object]:
    printed = output_after(example)
    if printed is None:
        run = runner.run_print_update if runner.update_examples else runner.run_print_check
        return run(example, module_globals=names)
    capsys.readouterr()
    found = runner.run(example, module_globals=names)
    assert capsys.readouterr().out == printed, "it prints something else"
    return found


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


# ------------------------------------------------------------------------------------------------------ Markdown


@pytest.fixture
def own_main(monkeypatch):
    """The module that an example pretends to be is gone after it."""
    importlib.import_module("numba")  # which cannot be imported while pytest-examples watches `print`
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])


# docs/cli.md works on the files that it shows, which tests/cli/test_cli.py writes first.
@pytest.mark.parametrize(
    "path", [p for p in DOCUMENTS if examples_of(p) and p.name not in ("cli.md", "start.md")], ids=name
)
@pytest.mark.usefixtures("own_main")
def test_examples_of_a_document(path, tmp_path, monkeypatch, eval_example, capsys):
    monkeypatch.chdir(tmp_path)
    run_document(path, eval_example, capsys)


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_links_of_a_document(path):
    assert broken_links(path) == []


def links_of(path: Path) -> list[tuple[int, str]]:
    """Line and target of every link to a place in this repository."""
    text = FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), path.read_text(encoding="utf-8"))
    text = re.sub(r"`[^`\n]*`", "", text)
    targets = re.finditer(r"\]\(\s*<?([^)\s>]+)|^\[[^\]]+\]:\s*(\S+)", text, re.MULTILINE)
    found = ((text.count("\n", 0, target.start()) + 1, target[1] or target[2]) for target in targets)
    return [(line, target) for line, target in found if not re.match(r"[a-z][a-z0-9+.-]*:", target)]


def anchors_of(path: Path) -> set[str]:
    """Headings as addresses: lower case, without punctuation, hyphens for spaces."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    headings = (heading.strip().lower() for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE))
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}


def broken_links(path: Path) -> list[str]:
    found = []
    for line, target in links_of(path):
        file, _, anchor = target.partition("#")
        to = (path.parent / file).resolve() if file else path
        if not to.exists() or (anchor and to.suffix == ".md" and anchor not in anchors_of(to)):
            found.append(f"{path}:{line}: {target}")
    return found


# ---------------------------------------------------------------------------------------------------- docstrings

HAS_EXAMPLE = re.compile(r"^\s*>>> ", re.MULTILINE)
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if HAS_EXAMPLE.search(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_examples_of_a_module(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dotted = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    report = io.StringIO()
    with redirect_stdout(report):
        failed, attempted = doctest.testmod(importlib.import_module(dotted), optionflags=doctest.ELLIPSIS)
    assert failed == 0, report.getvalue()
    assert attempted > 0


# ------------------------------------------------------------------------------------- the tools used above work


def document(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "page.md"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def block(*lines: str) -> tuple[str, ...]:
    return ("```python", *lines, "```")


@pytest.mark.usefixtures("own_main")
def test_blocks_share_a_namespace_and_others_are_not_run(tmp_path, eval_example, capsys):
    others = ("", "```console", "$ 0", "```", "", "```py", "1 / 0", "```", "")
    path = document(tmp_path, *block("x = 1"), *others, *block("print(x + 1)", "#> 2"))
    assert len(examples_of(path)) == 2
    run_document(path, eval_example, capsys)


@pytest.mark.parametrize(
    "lines",
    [
        block("x = 1", "1 / 0"),
        block("print([1])", "#> [2]"),
        block("print([1])"),
        (*block("print(1)"), "```text", "2", "```"),
        (*block("print(1)"), "", "```text", "1", "2", "```"),
    ],
)
@pytest.mark.usefixtures("own_main")
def test_what_is_wrong_is_found(tmp_path, lines, eval_example, capsys):
    path = document(tmp_path, "# A page", "", *lines)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        run_document(path, eval_example, capsys)


def test_broken_links_are_found(tmp_path):
    (tmp_path / "other.md").write_text("# A heading, with `code`\n")
    good = "[a](other.md) [b](other.md#a-heading-with-code) [c](https://x.y/z) [d](#page) `[e](none)` [f](.)"
    path = document(tmp_path, "# Page", good, "[g](none.md)", "```text", "[h](none)", "```", "[i](other.md#nothing)")
    assert broken_links(path) == [f"{path}:3: none.md", f"{path}:7: other.md#nothing"]
