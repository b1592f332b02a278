"""A room imports only the rooms above it; the tree of docs/architecture.md is what is on the disk."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "rubrank"
FOUNDATION = {"errors", "options", "_choices", "_jit", "_files", "_folders", "_plain", "_plugins", "store"}
_IN_ORDER = (
    "tables texts rollouts verifiers rubrics judges scores grading fusion records drafting studies evaluation training"
    " service viewer cli"
)
ROOMS = _IN_ORDER.split()
FACADE = {"__init__", "__main__"}  # the public names, and the way in


def imports(path: Path) -> list[tuple[int, str]]:
    """(line, dotted name) of everything that a file imports from rubrank, wherever it stands in it."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "rubrank":
            if node.module == "rubrank":
                found += [(node.lineno, f"rubrank.{alias.name}") for alias in node.names]
            else:
                found.append((node.lineno, str(node.module)))
        elif isinstance(node, ast.Import):
            found += [(node.lineno, a.name) for a in node.names if a.name.startswith("rubrank.")]
    return found


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("room", sorted(FOUNDATION | set(ROOMS)))
def test_a_room_imports_only_rooms_above_it(room):
    allowed = FOUNDATION | {room} | set(ROOMS[: ROOMS.index(room)] if room in ROOMS else ())
    paths = [p for p in SOURCE.rglob("*.py") if room_of(p) == room]
    upward = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in paths
        for line, name in imports(path)
        if name.split(".")[1] not in allowed
    ]
    assert upward == []


def test_no_import_in_a_function_is_there_to_break_a_cycle():
    """A package's own `__init__.py` may load its modules when they are first asked for: that keeps heavy ones away."""
    first, later = {}, {}
    for path in SOURCE.rglob("*.py"):
        name = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
        first[name], later[name] = set(), set()
        sort_imports(ast.parse(path.read_text(encoding="utf-8")), first[name], later[name], False)
    packages = {path.parent.relative_to(SOURCE.parent).as_posix().replace("/", ".") for path in SOURCE.rglob("*.py")}
    broken = [
        (name, target)
        for name in first.keys() - packages
        for target in later[name] & first.keys()
        if name in reached(target, first)
    ]
    assert broken == []


def sort_imports(node, first, later, inside):
    """What a module imports at its top, and what its functions import; not what only types need."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom) and (child.module or "").startswith("rubrank"):
            names = {child.module, *(f"{child.module}.{alias.name}" for alias in child.names)}
            (later if inside else first).update(names)
        elif isinstance(child, ast.Import):
            (later if inside else first).update(alias.name for alias in child.names)
        elif not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)):
            function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            sort_imports(child, first, later, inside or function)


def reached(start, first):
    """All modules that importing one imports."""
    seen, left = {start}, [start]
    while left:
        new = first.get(left.pop(), set()) - seen
        seen |= new
        left += new
    return seen


def test_the_top_level_holds_packages_and_the_foundation():
    names = {room_of(p) for p in SOURCE.rglob("*.py")}
    assert names <= FOUNDATION | set(ROOMS) | FACADE


def test_the_tree_in_the_readme_is_the_one_on_the_disk():
    block = re.search(
        r"```text\nsrc/rubrank/[^\n]*\n(.*?)```",
        (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"),
        re.DOTALL,
    )
    assert block
    listed = {line.split()[0].strip("/") for line in block[1].splitlines() if re.match(r"  \S", line)}
    there = {p.name for p in SOURCE.iterdir() if p.name not in ("__pycache__", "py.typed", "__main__.py")}
    assert listed == there
