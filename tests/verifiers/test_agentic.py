"""The agentic criteria: their examples, hostile definitions and answers, and the patch applier against git."""

import itertools
import json
import random
import re
import shutil
import subprocess
from difflib import unified_diff
from pathlib import Path

import pytest
from cases import examples
from hypothesis import given
from hypothesis import strategies as st

import rubrank.verifiers.agentic.code
import rubrank.verifiers.agentic.tools  # noqa: F401 - importing registers
from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.agentic.patches import PatchError, apply_patches, parse_diff
from rubrank.verifiers.agentic.tools import find_best_pairs
from rubrank.verifiers.shared import sandbox
from rubrank.verifiers.shared.code_blocks import find_code, find_patch, is_same_output, split_fenced_blocks
from rubrank.verifiers.shared.json_values import are_equal, is_match, write_canonical
from rubrank.verifiers.verifier import Verdict, find_verifier


def verdict(name: str, response: str = "ok", params: dict | None = None, **rollout) -> Verdict:
    found = find_verifier(name)
    return found.verify(Rollout(response=response, **rollout), found.check_parameters(params or {}))


@pytest.fixture
def isolated():
    if not sandbox.find_isolation():
        pytest.skip("this machine offers no isolation")


# --- schemas nobody has read --------------------------------------------------------------------------------------


def valid(schema: dict, arguments: dict | str) -> Verdict:
    tools, calls = ({"name": "f", "parameters": schema},), ({"name": "f", "arguments": arguments},)
    return verdict("ToolCallValid", tools=tools, tool_calls=calls)


def _laughs(n: int) -> dict:
    """Each level refers to the next one twice: 2 to the n checks."""
    levels = {f"l{i}": {"allOf": [{"$ref": f"#/$defs/l{i + 1}"}] * 2} for i in range(n)}
    return {"$ref": "#/$defs/l0", "$defs": {**levels, f"l{n}": {"type": "object"}}}


def _deep(n: int) -> dict:
    schema: dict = {"type": "object"}
    for _ in range(n):
        schema = {"not": schema}
    return schema


def test_a_dialect_inside_a_schema_does_not_bring_back_slow_patterns():
    # jsonschema would check such a part with its own validator, whose patterns backtrack.
    part = {"$schema": "https://json-schema.org/draft/2020-12/schema", "pattern": "^(a+)+$"}
    checked = valid({"type": "object", "properties": {"x": part}}, {"x": "a" * 60 + "!"})
    assert checked.value is None
    assert "$schema" in checked.reason


def test_a_dialect_at_the_top_of_a_schema_is_fine():
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "required": ["x"]}
    assert valid(schema, {"x": 1}).value == 1
    assert valid(schema, {}).value == 0


@pytest.mark.parametrize(
    ("text", "number", "expected"),
    [
        ("1,000", 1000, True),
        (" -2.5 ", -2.5, True),
        (".5", 0.5, True),
        ("1e3", 1000, True),
        ("1,5", 15, False),
        ("1_000", 1000, False),
        ("10,00", 1000, False),
        ("", 0, False),
        ("-", 0, False),
    ],
)
def test_a_text_equals_a_number_only_if_it_is_written_as_one(text, number, expected):
    assert is_match(number, text, "number") is expected


def test_whole_numbers_are_the_same_value_in_either_writing():
    assert write_canonical({"a": [1.0, {"b": 2.0}]}) == write_canonical({"a": [1, {"b": 2}]})
    assert write_canonical(1.5) != write_canonical(1)
    assert write_canonical(True) != write_canonical(1)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"$ref": "https://example.org/schema.json"}, "Unresolvable"),
        ({"$ref": "file:///etc/passwd"}, "Unresolvable"),
        ({"$ref": "#"}, "Recursion|steps"),
        (_laughs(40), "steps"),
        (_deep(5000), "deeper"),
        ({"type": "no such type"}, "Unknown"),
        ({"properties": {"a": {"pattern": "(?=x)"}}}, "cannot be used"),
        ({"properties": {"n": {"multipleOf": 0}}}, "cannot be used"),
        ({"properties": 3}, "cannot be used"),
        ({"unevaluatedProperties": False}, "not supported"),
    ],
)
@pytest.mark.timeout(60)  # 2^40 checks would not end
def test_unusable_schemas_are_missing(schema, why):
    found = valid(schema, {"a": "x", "n": 1})
    assert found.value is None
    assert re.search(why, found.reason)


@pytest.mark.timeout(60)  # a backtracking engine would not end
def test_patterns_are_linear():
    schema = {"patternProperties": {"^(a|a)*$": {"type": "string", "pattern": "^(a+)+$"}}}
    assert valid(schema, {"a" * 5000: "a" * 100_000 + "!"}).value == 0


@pytest.mark.timeout(60)  # comparing all pairs would be 200 million comparisons
def test_unique_items_of_a_large_list():
    items = [{"i": i} for i in range(20_000)]
    assert valid({"properties": {"l": {"uniqueItems": True}}}, {"l": items}).value == 1
    assert valid({"properties": {"l": {"uniqueItems": True}}}, {"l": [*items, {"i": 5}]}).value == 0


@pytest.mark.parametrize("arguments", ["[" * 10_000, '{"a":' * 10_000, "[1]", "1", "nul", '{"a": NaN}', "{'a': 1}"])
def test_argument_texts_that_are_no_objects_fail(arguments):
    assert valid({"type": "object"}, arguments).value == 0


def test_local_references_and_the_place_of_an_error():
    schema = {
        "properties": {"p": {"$ref": "#/$defs/p"}},
        "$defs": {"p": {"type": "array", "items": {"type": "integer"}}},
    }
    assert valid(schema, {"p": [1, 2]}).value == 1
    assert "$.p[1]: 'x' is not of type 'integer'" in valid(schema, {"p": [1, "x"]}).reason


def test_surrogates_and_nul_in_arguments():
    assert valid({"properties": {"s": {"pattern": "b"}}}, {"s": "\ud800b\0"}).value == 1


# --- matching -----------------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=1, max_size=5))
@examples(30)
def test_best_pairs_against_trying_everything(gains):
    pairs = find_best_pairs(gains)
    assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs)
    rows, columns = len(gains), 4
    padded = [[*row, *[0] * rows] for row in gains]
    ways = itertools.permutations(range(columns + rows), rows)
    best = max(sum(padded[i][j] for i, j in enumerate(way)) for way in ways)
    assert sum(gains[i][j] for i, j in pairs) == best


@pytest.mark.parametrize(
    ("expected", "actual", "how", "same"),
    [
        ("1,000", 1000, "number", True),
        ("x", 1, "number", False),
        (True, 1, "number", False),
        ("A  b", "a B", "casefold", True),
        ("[1]", [1], "json", True),
        ("a.c", "abc", "regex", True),
        ("a.c", "xabcx", "regex", False),
        ("\\d+", 42, "regex", True),
        (None, None, "exact", True),
        (1, "1", "exact", False),
    ],
)
def test_ways_of_comparing(expected, actual, how, same):
    assert is_match(expected, actual, how) is same


_LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
_STATES = st.recursive(_LEAVES, lambda c: st.lists(c) | st.dictionaries(st.text(max_size=2), c), max_leaves=8)


@given(_STATES)
@examples(40)
def test_a_state_equals_itself_after_json(state):
    again = json.loads(json.dumps(state))
    assert are_equal(state, again)
    found = verdict("FinalStateMatch", metadata={"expected_state": state, "final_state": again})
    assert found.value == 1


@pytest.mark.slow
@pytest.mark.timeout(120)  # matching over all subsets would not end
def test_a_runaway_trajectory_is_matched():
    calls = tuple({"name": "a", "arguments": {"i": i}} for i in range(5000))
    expected = [{"name": "a", "arguments": {"i": i}} for i in range(60)]
    assert verdict("ToolCallMatch", params={"expected": expected, "mode": "subset"}, tool_calls=calls).value == 1
    assert verdict("ToolArgsMatch", params={"expected": expected}, tool_calls=calls).value == 1


def test_the_reason_names_the_place():
    meta = {"expected_state": {"orders": [{}, {"status": "paid"}]}, "final_state": {"orders": [{}, {"status": "open"}]}}
    assert verdict("FinalStateMatch", metadata=meta).reason == (
        "1 of 2 leaves differ: $.orders[1].status: 'paid' expected, 'open' found"
    )


@pytest.mark.parametrize(
    ("expected", "final", "params"),
    [
        # An ignored key sorts before the one that tells the items apart.
        (
            [{"id": 1, "name": "x"}, {"id": 2, "name": "y"}],
            [{"id": 9, "name": "x"}, {"id": 3, "name": "y"}],
            {"ignore": ["$[*].id"]},
        ),
        # So does a key that is not expected.
        ([{"b": 1}, {"b": 2}], [{"a": 2, "b": 1}, {"a": 1, "b": 2}], {"subset": True}),
        # As text, "10" sorts before "2", but after "1.9999".
        ([2, 10], [10.0001, 1.9999], {"tolerance": 0.01}),
        ([[1, 9], [2, 3]], [[9, 1], [3, 2]], {}),
    ],
)
def test_items_in_any_order_find_their_partner(expected, final, params):
    metadata = {"expected_state": expected, "final_state": final}
    found = verdict("FinalStateMatch", params={"unordered": True, **params}, metadata=metadata)
    assert found.value == 1, found.reason


def test_items_in_any_order_still_differ():
    metadata = {"expected_state": [{"id": 1, "n": 1}, {"id": 2, "n": 2}], "final_state": [{"id": 2, "n": 2}, {"id": 1}]}
    assert verdict("FinalStateMatch", params={"unordered": True}, metadata=metadata).reason == (
        "1 of 4 leaves differ: $[0].n: absent"
    )


@pytest.mark.parametrize(("expected", "final", "value"), [("deep", 1, None), (1, "deep", 0)])
def test_states_too_deep(expected, final, value):
    """An expectation too deep cannot be decided; a policy that leaves such a state behind has failed."""
    deep: list = []
    for _ in range(5000):
        deep = [deep]
    states = {"expected_state": deep if expected == "deep" else 1, "final_state": deep if final == "deep" else 1}
    found = find_verifier("FinalStateMatch")
    rollout = Rollout.model_construct(response="", metadata=states)
    assert found.verify(rollout, found.check_parameters({})).value == value


def test_too_much_is_no_way_out_of_a_verdict(isolated):
    items = {"properties": {"l": {"items": {"type": "integer", "minimum": 0, "maximum": 9, "multipleOf": 1}}}}
    assert valid(items, {"l": [1] * 150_000}).value == 0
    assert valid({"properties": {"n": {"multipleOf": 0.1}}}, '{"n": 1e999}').value == 0
    params = {"expected": [{"name": "a", "arguments": {"x": 1}}], "tolerance": 0.1}
    huge = ({"name": "a", "arguments": {"x": 10**400}},)
    assert verdict("ToolArgsMatch", params=params, tool_calls=huge).value == 0
    clash = "--- /dev/null\n+++ b/m.py/x\n@@ -0,0 +1 @@\n+x\n"
    found = verdict("TestsPass", clash, {"source": "patch", "tests": ["pass"]}, metadata={"files": {"m.py": ""}})
    assert found.value == 0
    assert "both a file and a folder" in found.reason


# --- answers ------------------------------------------------------------------------------------------------------


def test_blocks():
    text = "```python\na\n```\nx\n~~~~\n```\nb\n~~~~\n```json\n{}"
    assert list(split_fenced_blocks(text)) == [("python", "a\n"), ("", "```\nb\n"), ("json", "{}\n")]
    assert find_code(text) == "```\nb\n"
    assert find_code("print(1)") == "print(1)"
    assert find_code("Sorry, I cannot.") is None
    assert find_patch("see\n--- a/x\n+++ b/x\n@@") == "--- a/x\n+++ b/x\n@@"


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000,
        "```\n" * 100_000,
        "--- a\n+++ b\n" * 50_000,
        "@@ -1 +1 @@\n" * 80_000,
        "\ud800\0" * 1000,
        "diff --git a/x b/x\n" * 50_000,
        "--- a/a\n+++ b/a\n" + "@@ -9 +9 @@\n-x\n+y\n" * 50_000,
        "x" * 1_000_000,
    ],
)
@pytest.mark.timeout(60)  # searching the file anew for each of 50,000 hunks would take many minutes
def test_hostile_answers_are_refused(text):
    found = verdict("PatchApplies", text, {"files": {"a": "x\n" * 50_000}})
    assert found.value == 0
    assert find_code(text) is None or isinstance(find_code(text), str)


@pytest.mark.parametrize(
    ("expected", "written", "compare", "same"),
    [
        ("1\n2", "1 \n2\n\n", "lines", True),
        ("1\n2", "1 2", "lines", False),
        ("1\n2", "1 2", "tokens", True),
        ("1", "1\n", "exact", False),
        ("0.5", "0.5000001", "tokens", True),
        ("0.5", "0.51", "tokens", False),
    ],
)
def test_outputs(expected, written, compare, same):
    assert is_same_output(expected, written, compare, 1e-6) is same


# --- patches ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../x", "a/../../x", ".git/hooks/pre-commit", "a/.GIT/x", "C:/x", "~/x", "a\\..\\x"]
)
def test_paths_that_lead_out_are_refused(name):
    with pytest.raises(PatchError, match="refused"):
        parse_diff(f"--- /dev/null\n+++ {name}\n@@ -0,0 +1 @@\n+x\n")


def test_links_and_binaries_are_refused():
    with pytest.raises(PatchError, match="symbolic"):
        parse_diff("diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+/etc\n")
    with pytest.raises(PatchError, match="binary"):
        parse_diff("diff --git a/x b/x\nindex 1..2\nGIT binary patch\nliteral 0\n")


@pytest.mark.parametrize("mode", ["new file mode 160000", "index 1..2 160000", "new mode 120000", "index 1..2 120000"])
def test_links_of_every_kind_are_refused(mode):
    diff = f"diff --git a/x b/x\n{mode}\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-Subproject commit 1\n+Subproject commit 2\n"
    with pytest.raises(PatchError, match=r"submodules|symbolic"):
        parse_diff(diff)


@pytest.mark.parametrize(
    "name",
    ["a" * 300, "é" * 200, "a/" * 600 + "b", "a//b", "./a", "a/./b", "a\x07b", "a\u202eb"],
)
def test_names_that_no_file_has_are_refused(name):
    with pytest.raises(PatchError, match="no file can have it"):
        parse_diff(f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+x\n")


@pytest.mark.parametrize("name", [".git/x", ".GIT/x", ".git./x", ".g\u200cit/x", "a/git~1/x", ".git::$DATA/x"])
def test_git_in_every_spelling_is_refused(name):
    with pytest.raises(PatchError, match=r"into \.git"):
        parse_diff(f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+x\n")


def _new(name: str) -> str:
    return f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+x\n"


def test_a_name_is_a_file_or_a_folder():
    for diff, files in [
        (_new("m.py/x"), {"m.py": ""}),
        (_new("d"), {"d/a": ""}),
        (_new("n") + _new("n/o"), {}),
        ("diff --git a/q b/d/a/z\nrename from q\nrename to d/a/z\n", {"q": "", "d/a": ""}),
    ]:
        with pytest.raises(PatchError, match="both a file and a folder"):
            apply_patches(parse_diff(diff), files)
    gone = "diff --git a/m b/m\ndeleted file mode 100644\n--- a/m\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
    assert apply_patches(parse_diff(gone + _new("m/x")), {"m": "x\n"}) == {"m/x": "x\n"}  # as git has it


def test_a_patch_of_endless_files_is_refused():
    with pytest.raises(PatchError, match=r"files|hunks"):
        apply_patches(parse_diff("".join(_new(f"f{i}") for i in range(10_001))), {})


def test_renames_copies_and_missing_newlines():
    moved = "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n"
    assert apply_patches(parse_diff(moved), {"x": "1\n"}) == {"y": "1\n"}
    assert apply_patches(parse_diff(moved.replace("rename", "copy")), {"x": "1\n"}) == {"x": "1\n", "y": "1\n"}
    cut = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\n\\ No newline at end of file\n+2\n"
    assert apply_patches(parse_diff(cut), {"x": "1"}) == {"x": "2\n"}
    with pytest.raises(PatchError, match="does not match"):
        apply_patches(parse_diff(cut), {"x": "1\n"})


def test_created_files_modes_and_notes_about_newlines_are_read_as_git_reads_them():
    empty = "diff --git a/e b/e\nnew file mode 100644\nindex 0000000..e69de29\n"
    assert apply_patches(parse_diff(empty + _new("y")), {}) == {"e": "", "y": "x\n"}
    mode = "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n"
    assert apply_patches(parse_diff(mode), {"x": "1\n"}) == {"x": "1\n"}
    hunk = "--- a/y\n+++ b/y\n@@ -1 +1 @@\n-1\n+2\n"
    changed = apply_patches(parse_diff(mode + "diff --git a/y b/y\n" + hunk), {"x": "1\n", "y": "1\n"})
    assert changed == {"x": "1\n", "y": "2\n"}
    with pytest.raises(PatchError, match="x: no hunk"):
        parse_diff("diff --git a/x b/x\nindex 1..2 100644\n")
    german = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\n\\ Kein Zeilenumbruch am Dateiende.\n+2\n"
    assert apply_patches(parse_diff(german), {"x": "1"}) == {"x": "2\n"}
    assert apply_patches(parse_diff(german + "\\ Kein Zeilenumbruch am Dateiende.\n"), {"x": "1"}) == {"x": "2"}


@pytest.mark.parametrize(
    ("header", "change"),
    [
        (r'"a/\303\251" "b/\303\251"', "new file mode 100644\nindex 0000000..e69de29"),
        (r'"a/\303\251" "b/\303\251"', "new file mode 100644\n--- /dev/null\n+++ " r'"b/\303\251"'),
        (r'a/old "b/\303\251"', 'similarity index 100%\nrename from old\nrename to "\\303\\251"'),
    ],
)
def test_names_in_quotes_are_read(header, change):
    tree = apply_patches(parse_diff(f"diff --git {header}\n{change}\n" + _new("y")), {"old": ""})
    assert tree.keys() - {"old"} == {"é", "y"}


def test_an_empty_file_with_a_name_in_quotes_is_deleted():
    gone = r'diff --git "a/\303\251 \"x\"" "b/\303\251 \"x\""' + "\ndeleted file mode 100644\n"
    assert apply_patches(parse_diff(gone + _new("y")), {'é "x"': ""}) == {"y": "x\n"}


@pytest.mark.parametrize("name", ["x", "a/x"])
def test_the_same_prefix_on_both_sides_names_the_file_that_exists(name):
    diff = "--- a/x\n+++ a/x\n@@ -1 +1 @@\n-1\n+2\n"
    assert apply_patches(parse_diff(diff), {name: "1\n"}) == {name: "2\n"}


def test_fuzz_lets_outer_context_differ():
    diff = "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
    with pytest.raises(PatchError):
        apply_patches(parse_diff(diff), {"x": "A\nb\nc\n"})
    assert apply_patches(parse_diff(diff), {"x": "A\nb\nc\n"}, fuzz=1) == {"x": "A\nB\nc\n"}


def _edited(lines: list[str], rng: random.Random) -> list[str]:
    lines = list(lines)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(lines) + 1)
        lines[at : at + rng.randint(0, 3)] = [f"new {rng.randrange(5)}\n"] * rng.randint(0, 3)
    return lines


def _damaged(diff: str, rng: random.Random) -> str:
    """One line of a hunk's body changed or dropped. (Not a header: git then drops the rest in silence, we do not.)"""
    lines = diff.splitlines(keepends=True)
    at = rng.choice([i for i, line in enumerate(lines) if i > 2 and not line.startswith("@@")])
    lines[at] = rng.choice([" other\n", "-other\n", "+other\n", ""])
    return "".join(lines)


def _git_applies(folder: Path, name: str, before: str, diff: str) -> str | None:
    (folder / name).write_text(before, newline="")
    done = subprocess.run(["git", "apply", "-"], input=diff.encode(), cwd=folder, capture_output=True, check=False)
    return (folder / name).read_text() if done.returncode == 0 else None


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
def test_the_applier_agrees_with_git(tmp_path):
    """Right diffs, damaged diffs, and files that have moved on: the same verdict, and if both apply the same text."""
    rng = random.Random(7)
    agreed = tried = 0
    for _ in range(60):
        before = [f"line {rng.randrange(6)}\n" for _ in range(rng.randint(3, 40))]
        after = _edited(before, rng)
        diff = "".join(unified_diff(before, after, "a/x", "b/x"))
        if not diff:
            continue
        own = _own("".join(before), diff)
        assert own == "".join(after)
        damaged = _damaged(diff, rng)
        moved = "".join(before[rng.randint(0, 2) :] if rng.random() < 0.5 else ["first\n"] * 2 + before)
        for text, patch in (("".join(before), damaged), (moved, diff)):
            tried += 1
            agreed += _own(text, patch) == _git_applies(tmp_path, "x", text, patch)
    assert tried > 80
    assert agreed == tried


def _own(before: str, diff: str) -> str | None:
    try:
        return apply_patches(parse_diff(diff), {"x": before})["x"]
    except PatchError:
        return None


# --- tests in the sandbox -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("isolated")
@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import os; os._exit(0)", "ended early"),
        ("import sys; print('passed'); sys.exit(0)", r"exit\(0\)"),
        ("import os; os.kill(os.getppid(), 9)", "has ended"),
        ("import os; [os.close(i) for i in range(64) if i > 2]", "ended early|OSError"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("x = bytearray(1 << 30)", "MemoryError"),
        ("while True: pass", "out of time"),
        ("def f(:", "SyntaxError"),
        ("import os\nwhile True: os.write(1, b'x' * 65536)", "out of time"),
        ("import socket; socket.create_connection(('1.1.1.1', 53), 1)", "PermissionError|OSError"),
        ("open('/proc/%d/fd/1' % __import__('os').getppid(), 'w').write('{}')", "PermissionError"),
    ],
)
def test_ways_of_not_passing(code, why):
    found = verdict("TestsPass", f"```python\n{code}\n```", {"tests": ["pass"], "seconds": 0.7})
    assert found.value == 0
    assert re.search(why, found.reason)


@pytest.mark.usefixtures("isolated")
def test_functions_classes_async_and_setup():
    tests = "import asyncio\nfrom mine import f\n\ndef test_a():\n    assert f() == K\n\nclass TestB:\n"
    tests += "    def test_c(self):\n        assert f() == 3\n\nasync def test_d():\n    assert f() == 4\n"
    code = "```py\ndef f():\n    return K\nif __name__ == '__main__':\n    raise ValueError\n```"
    found = verdict("TestsPass", code, {"tests": tests, "path": "mine.py", "setup": "K = 3"})
    assert (found.value, found.reason) == (2 / 3, "2 of 3 tests passed; test 3: AssertionError: ")


@pytest.mark.usefixtures("isolated")
def test_files_left_behind_and_programs_that_never_see_the_expected_output():
    meta = {"final_files": {"s.py": "import helper\nprint(helper.x, input())"}, "files": {"helper.py": "x = 1"}}
    params = {
        "source": "file",
        "path": "s.py",
        "cases": [{"stdin": "a", "stdout": "1 a"}, {"stdin": "b", "stdout": "1 c"}],
    }
    found = verdict("TestsPass", params=params, metadata=meta)
    assert found.value == 0.5
    assert "'1 c' expected, '1 b\\n' written" in found.reason


def test_broken_tests_and_dangerous_files_are_missing():
    assert verdict("TestsPass", "```\nx = 1\n```", {"tests": ["assert ("]}).value is None
    found = verdict("TestsPass", "```\nx = 1\n```", {"tests": ["pass"]}, metadata={"files": {"../x": ""}})
    assert found.value is None


def test_without_isolation_the_verdict_is_missing(monkeypatch):
    def refuse(*_, **__):
        raise sandbox.NoIsolation("signals", "files")

    monkeypatch.setattr(sandbox, "run", refuse)
    for params in ({"tests": ["pass"]}, {"cases": [{"stdout": "1"}]}):
        found = verdict("TestsPass", "```\nx = 1\n```", params)
        assert found.value is None
        assert "RUBRANK_SANDBOX_ALLOW=signals,files" in found.reason


# --- calls ----------------------------------------------------------------------------------------------------------


def test_spaces_in_sampled_arguments_do_not_hide_a_duplicate():
    calls = [{"name": "search", "arguments": text, "result": "x"} for text in ('{"q":"a"}', '{"q": "a"}')]
    assert verdict("TrajectoryEfficiency", params={"optimal": 1}, tool_calls=calls).value == pytest.approx(1 / 3)


def test_without_patterns_an_object_still_says_that_it_failed():
    calls = [{"name": "search", "result": {"status": "failed"}}, {"name": "search", "result": "Error: down"}]
    assert verdict("NoToolError", params={"patterns": []}, tool_calls=calls).value == 0
    assert verdict("NoToolError", params={"patterns": [], "most": 1}, tool_calls=calls).value == 1
