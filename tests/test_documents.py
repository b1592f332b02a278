"""README, docs and docstrings: every example runs and prints what it says, every link leads somewhere.

In a Markdown file the ```python blocks are run in order, in one namespace and an empty directory.

- A block with `>>>` is a doctest.
- A ```text block right after a ```python block is what that block prints.
- A comment behind a `print` that begins like an output (`[`, `{`, `'`, a digit, `(` and a digit) is what is printed.
  It may go on after it, or pick some parts of it separated by commas.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import io
import re
import tokenize
from contextlib import redirect_stdout
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import pytest

from rubrank.fusion import model, rules

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "rubrank"
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(p for d in ("docs", "examples", "recipes") for p in (ROOT / d).rglob("*.md"))]
)
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<source>.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    path: Path
    line: int
    """Line of the file in which the code begins."""
    source: str
    prints: str | None = None

    @property
    def is_session(self) -> bool:
        return ">>> " in self.source


def blocks_of(path: Path) -> list[Block]:
    """The Python blocks of a Markdown file, with the outputs that follow them."""
    text = path.read_text(encoding="utf-8")
    fences = list(FENCE.finditer(text))
    found = []
    for fence, after in zip_longest(fences, fences[1:]):
        if fence["info"].strip() in ("python", "pycon"):
            follows = after is not None and after["info"] == "text" and not text[fence.end() : after.start()].strip()
            line = text.count("\n", 0, fence.start("source")) + 1
            found.append(Block(path, line, fence["source"], after["source"] if follows and after else None))
    return found


def run_block(block: Block, namespace: dict[str, object]) -> None:
    """Run one block; what goes wrong is told with file and line."""
    if block.is_session:
        run_session(block, namespace)
        return
    tree = ast.parse(block.source, str(block.path))
    comments = comments_of(block.source)
    printed = ""
    for statement in tree.body:
        claim = comments.get(statement.end_lineno or 0, "")
        ast.increment_lineno(statement, block.line - 1)
        output = run_statement(block, statement, namespace)
        if is_print(statement) and re.match(r"[\[{'\d]|\(\d", claim):
            assert agrees(output, claim), f"{place(block, statement)}: prints {output!r}, not {claim!r}"
        printed += output
    if block.prints is not None:
        assert printed == block.prints, f"{place(block)}: prints\n{printed}\nnot\n{block.prints}"


def run_statement(block: Block, statement: ast.stmt, namespace: dict[str, object]) -> str:
    code = compile(ast.Module([statement], []), str(block.path), "exec", dont_inherit=True)
    with redirect_stdout(io.StringIO()) as output:
        try:
            exec(code, namespace)
        except Exception as error:
            raise AssertionError(f"{place(block, statement)}: {type(error).__name__}: {error}") from error
    return output.getvalue()


def run_session(block: Block, namespace: dict[str, object]) -> None:
    examples = doctest.DocTestParser().get_doctest(
        block.source, namespace, block.path.name, str(block.path), block.line - 1
    )
    report = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(examples, out=report.write, clear_globs=False)
    namespace.update(examples.globs)
    assert runner.failures == 0, f"{place(block)}:\n{report.getvalue()}"


def place(block: Block, statement: ast.stmt | None = None) -> str:
    return f"{block.path}:{block.line if statement is None else statement.lineno}"


def is_print(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print"


def comments_of(source: str) -> dict[int, str]:
    """Line → comment."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}


def agrees(output: str, claim: str) -> bool:
    output, claim = (" ".join(text.split()) for text in (output, claim))
    return claim.startswith(output) or all(part in output for part in claim.split(", "))


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


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


# ------------------------------------------------------------------------------------------------------ Markdown


@pytest.fixture
def registry(monkeypatch):
    """Models and rules that an example registers are gone after it."""
    model.model_names()  # the built-in ones are registered by now
    monkeypatch.setattr(model, "_MODELS", dict(model._MODELS))
    monkeypatch.setattr(rules, "RULES", dict(rules.RULES))


# docs/cli.md works on the files that it shows, which tests/test_cli.py writes first.
@pytest.mark.parametrize("path", [path for path in DOCUMENTS if blocks_of(path) and path.name != "cli.md"], ids=name)
@pytest.mark.usefixtures("registry")
def test_examples_of_a_document(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks_of(path):
        run_block(block, namespace)


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_links_of_a_document(path):
    assert broken_links(path) == []


# ---------------------------------------------------------------------------------------------------- docstrings

MODULES = sorted(path for path in PACKAGE.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8"))


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


def run_document(path: Path) -> None:
    namespace: dict[str, object] = {}
    for block in blocks_of(path):
        run_block(block, namespace)


def test_blocks_share_a_namespace(tmp_path):
    path = document(
        tmp_path, "```python", "x = 1", "```", "", "```python", ">>> x + 1", "2", "```", "```python", "x", "```"
    )
    assert [(block.line, block.source) for block in blocks_of(path)] == [
        (2, "x = 1\n"),
        (6, ">>> x + 1\n2\n"),
        (10, "x\n"),
    ]
    run_document(path)


def test_other_blocks_are_not_run(tmp_path):
    path = document(tmp_path, "```console", "$ false", "```", "```text", "1/0", "```", "```", "1/0", "```")
    assert blocks_of(path) == []


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["x = 1", "1 / 0"], "page.md:5: ZeroDivisionError"),
        ([">>> 1 + 1", "3"], "page.md:4:"),
        (["x = [1]", "print(x)  # [2]"], "page.md:5: prints"),
        (["print(1)", "```", "```text", "2"], "page.md:4: prints"),
    ],
)
def test_failures_are_told_with_file_and_line(tmp_path, lines, message):
    path = document(tmp_path, "# A page", "", "```python", *lines, "```")
    with pytest.raises(AssertionError, match=re.escape(message)):
        run_document(path)


def test_outputs_that_agree(tmp_path):
    lines = ["print([1, 2])  # [1, 2], in order", "print({'a': 1, 'b': 2})  # 'b': 2", "print('x')  # whatever it is"]
    run_document(
        document(tmp_path, "```python", *lines, "```", "", "```text", "[1, 2]", "{'a': 1, 'b': 2}", "x", "```")
    )


def test_broken_links_are_found(tmp_path):
    (tmp_path / "other.md").write_text("# A heading, with `code`\n")
    good = "[a](other.md) [b](other.md#a-heading-with-code) [c](https://x.y/z) [d](#page) `[e](none)` [f](.)"
    path = document(tmp_path, "# Page", good, "[g](none.md)", "```text", "[h](none)", "```", "[i](other.md#nothing)")
    assert broken_links(path) == [f"{path}:3: none.md", f"{path}:7: other.md#nothing"]
