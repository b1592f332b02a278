"""Programs that are wrong and want to pass do not; what right programs do with plain data, classes and files works."""

import importlib.util
import sys
from pathlib import Path

import pytest
from cases import spread, thinned

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.agentic.code import find_modules, find_test_files
from rubrank.verifiers.shared import sandbox
from rubrank.verifiers.verifier import find_verifier

_FILE = Path(__file__).parents[2] / "benchmarks" / "wrong_programs.py"
_SPEC = importlib.util.spec_from_file_location("wrong_programs", _FILE)
wrong_programs = importlib.util.module_from_spec(_SPEC)
sys.modules["wrong_programs"] = wrong_programs  # dataclasses look there
_SPEC.loader.exec_module(wrong_programs)


@pytest.fixture(autouse=True)
def isolated():
    if not sandbox.find_isolation():
        pytest.skip("this machine offers no isolation")


@pytest.mark.parametrize("name", thinned(spread(list(wrong_programs.WRONG), every=4)))
def test_a_wrong_program_does_not_pass(name):
    verdict = wrong_programs.verdict(wrong_programs.WRONG[name])
    assert verdict.value is not None, verdict.reason
    assert verdict.value < 1, verdict.reason


@pytest.mark.parametrize("name", thinned(spread(list(wrong_programs.RIGHT), every=4)))
def test_a_right_program_passes(name):
    verdict = wrong_programs.verdict(wrong_programs.RIGHT[name])
    assert verdict.value == 1, verdict.reason


def passes(code: str, tests: str, **params) -> str:
    """The reason of a verdict that must be 1."""
    tests_pass = find_verifier("TestsPass")
    params = tests_pass.check_parameters({"tests": tests, **params})
    verdict = tests_pass.verify(Rollout(response=f"```python\n{code}\n```"), params)
    assert verdict.value == 1, verdict.reason
    return verdict.reason


_CLASSES = """
import collections, enum

class Stack:
    kind = "last in, first out"
    def __init__(self): self.items = []
    def push(self, x): self.items.append(x)
    def pop(self): return self.items.pop()
    def __len__(self): return len(self.items)
    def __eq__(self, other): return isinstance(other, Stack) and self.items == other.items
    def __iter__(self): return iter(self.items)
    def __contains__(self, x): return x in self.items
    def __repr__(self): return f"Stack({self.items})"
    def __enter__(self): return self
    def __exit__(self, *_): self.items.clear()

class Deep(Stack): pass
class Full(ValueError): pass
class Color(enum.Enum):
    RED = 1
    BLUE = 2
class Level(enum.IntEnum):
    LOW = 1

Point = collections.namedtuple("Point", "x y")
class Vector:
    def __init__(self, *xs): self.xs = xs
    def __add__(self, other): return Vector(*(a + b for a, b in zip(self.xs, other.xs)))
    def __mul__(self, k): return Vector(*(x * k for x in self.xs))
    __rmul__ = __mul__
    def __eq__(self, other): return self.xs == other.xs
    def __lt__(self, other): return self.xs < other.xs
    def __getitem__(self, i): return self.xs[i]
"""


@pytest.mark.parametrize(
    "test",
    [
        "s = Stack(); s.push(1); s.push(2); assert len(s) == 2 and s.pop() == 2 and 1 in s and list(s) == [1]",
        "s, t = Stack(), Stack(); assert s == t and not s != t; t.push(1); assert s != t and repr(t) == 'Stack([1])'",
        "d = Deep(); assert isinstance(d, Stack) and issubclass(Deep, Stack) and type(d) is Deep and not Stack()",
        "s = Stack(); s.items = [7]; assert s.items == [7] and s.pop() == 7 and Stack.kind[:4] == 'last'",
        "with Stack() as s:\n    s.push(1)\nassert len(s) == 0",
        "assert Color.RED is Color.RED and Color.RED != Color.BLUE and Color(2) == Color.BLUE",
        "assert Color['RED'].value == 1 and len(Color) == 2",
        "assert [c.name for c in Color] == ['RED', 'BLUE'] and Level.LOW == 1 and Level.LOW < 2",
        "p = Point(1, 2); assert p == (1, 2) and p.y == 2 and p._replace(x=3) == (3, 2)",
        "v = 2 * (Vector(1, 2) + Vector(3, 4)); assert v == Vector(8, 12) and v[1] == 12 and v.xs == (8, 12)",
        "assert sorted([Vector(2), Vector(1)])[0].xs == (1,)",
        "assert {Color.RED: 1}[Color.RED] == 1 and f'{Color.RED}' == 'Color.RED'",
    ],
)
def test_classes_can_be_tested(test):
    passes(_CLASSES, [test])


_FUNCTIONS = """
import math
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

K = {"a": (1, 2.5), "b": [None, True, b"x"]}
class Mine(KeyError): pass
def same(x): return x
def bad(x): raise Mine("no", x)
def numbers():
    yield from (1, 2)
def apply(f, *args): return f(*args) + 1
async def later(x): return x + 1
def hello(name="you", *, loud=False): print("hello", name); return loud
def sort(xs): xs.sort()
def push(x, to=[]): to.append(x); return len(to)
def types(): return int, [str]
def make(x):
    def inner(y): return x + y
    return inner
"""


@pytest.mark.parametrize(
    "test",
    [
        "for x in (1, -2**70, 1.5, float('inf'), 'é\\ud800', b'\\0', (1, [2]), {1: {2}}, None, 3 + 4j, range(3)):\n"
        "    assert same(x) == x and type(same(x)) is type(x)",
        "assert math.isnan(same(float('nan'))) and K == {'a': (1, 2.5), 'b': [None, True, b'x']}",
        "assert same(Decimal('1.1')) == Decimal('1.1') and same(Fraction(1, 3)) == Fraction(1, 3)",
        "assert same(date(2020, 1, 2)) == date(2020, 1, 2) and same(timedelta(3)).days == 3",
        "try:\n    bad(3)\nexcept KeyError as e:\n    assert e.args == ('no', 3) and type(e) is Mine\n"
        "else:\n    assert False",
        "assert list(numbers()) == [1, 2] and next(numbers()) == 1 and sum(numbers()) == 3",
        "assert apply(lambda a: a * 2, 4) == 9 and apply(same, 1) == 2 and apply(len, [1]) == 2",
        "import asyncio\nassert asyncio.run(later(1)) == 2",
        "import io, contextlib\nout = io.StringIO()\nwith contextlib.redirect_stdout(out):\n"
        "    assert hello('me', loud=True) is True\nassert out.getvalue() == 'hello me\\n'",
        "xs = [[3], [1]]; inner = xs[0]; sort(xs); assert xs == [[1], [3]]",
        "assert push(1) == 1 and push(1) == 2",
        "assert make(1)(2) == 3 and types() == (int, [str]) and callable(make)",
        "import solution\nfrom solution import *\nassert solution.same(1) == same(1)\n"
        "solution.K = 4\nassert solution.K == 4",
        "class Node:\n    def __init__(self): self.value = 1\nn = Node()\nassert same(n) is n",
    ],
)
def test_functions_can_be_tested(test):
    passes(_FUNCTIONS, [test])


@pytest.mark.parametrize(
    ("test", "fakeable"),
    [
        ("assert same([1, (2, 3)]) == [1, (2, 3)] and list(numbers()) == [1, 2]", False),
        ("assert make(1)(2) == 3 and K['a'] == (1, 2.5)", False),
        ("assert apply(lambda x: x, 1) == 2", True),
        ("class Node: pass\nassert isinstance(same(Node()), Node)", True),
    ],
)
def test_a_test_that_needs_live_objects_is_reported_as_fakeable(test, fakeable):
    assert ("can be faked" in passes(_FUNCTIONS, [test])) is fakeable


def test_methods_and_attributes_of_a_class_need_no_live_objects():
    solution = "class Solution:\n    seen = 0\n    def add(self, xs):\n        self.seen += 1\n        return sum(xs)"
    test = "s = Solution()\nassert s.add([1, 2]) == 3 and s.seen == 1"
    assert "can be faked" not in passes(solution, test)
    assert "can be faked" in passes(solution, "assert Solution() != Solution()")
    assert "can be faked" in passes(solution, test, in_process=True)


def test_an_object_that_a_function_returns_has_no_operators():
    """Otherwise a solution could choose to be compared by its own `==`."""
    tests_pass = find_verifier("TestsPass")
    code = "class Box:\n    size = 3\n    def __len__(self): return 3\ndef make(): return Box()"
    tests = ["assert make().size == 3", "assert len(make()) == 3"]
    verdict = tests_pass.verify(
        Rollout(response=f"```python\n{code}\n```"), tests_pass.check_parameters({"tests": tests})
    )
    assert verdict.value == 0.5
    assert "only its methods and attributes" in verdict.reason


def test_names_of_an_entry_point_and_of_python_itself():
    """A function that is asked for by name is the solution's, even if it has one of Python's names."""
    passes(
        "def sum(xs):\n    return 42", "def check(f):\n    assert f([1]) == 42 and sum([1, 2]) == 3", entry_point="sum"
    )
    passes("def abs(x):\n    return 42", "from solution import abs\nassert abs(-1) == 42")


def test_arguments_are_changed_in_place_only_where_that_is_meant():
    code = "def f(xs):\n    xs.append(4)\n    return len(xs)"
    passes(code, "xs = []\nassert f(xs) == 1 and xs == []")
    passes(code, "xs = []\nassert f(xs) == 1 and xs == [4]", mutates=True)


def test_files_of_the_tests_are_as_they_were_given():
    files = {
        "pkg/__init__.py": "",
        "pkg/core.py": "def f():\n    return 1\n",
        "pkg/tests/__init__.py": "",
        "pkg/tests/common.py": "from pkg.core import f\n\ndef twice():\n    return 2 * f()\n",
        "data.txt": "2",
    }
    diff = "--- a/pkg/core.py\n+++ b/pkg/core.py\n@@ -1,2 +1,2 @@\n def f():\n-    return 1\n+    return 2\n"
    tests = "import pkg.core\nfrom pkg.core import f\nfrom pkg.tests.common import twice\n\n"
    tests += "def test_a():\n    assert twice() == 4 and f() == pkg.core.f() == int(open('data.txt').read())\n"
    found = find_verifier("TestsPass")
    params = found.check_parameters({"tests": tests, "source": "patch"})
    verdict = found.verify(Rollout(response=f"```diff\n{diff}```", metadata={"files": files}), params)
    assert verdict.value == 1, verdict.reason


@pytest.mark.parametrize(
    ("name", "content", "belongs"),
    [
        ("tests/a.py", "", True),
        ("pkg/test_x.py", "", True),
        ("conftest.py", "", True),
        ("a_test.py", "", True),
        ("latest.py", "", False),
        ("contest.py", "", False),
        ("helpers.py", "def check(x):\n    assert x", True),
        ("helpers.py", "def slug(x):\n    assert x", False),
        ("helpers.py", "def check(x):\n    return x", False),
        ("broken.py", "def check(", False),
    ],
)
def test_which_files_belong_to_the_tests(name, content, belongs):
    tests = ["import helpers, broken"]
    assert (find_test_files({name: content}, None, tests) == {name}) is belongs
    assert find_test_files({name: content}, ["x/*"], tests) == set()
    assert find_test_files({name: content}, [name], tests) == {name}


def test_find_modules_files():
    assert find_modules(["a/b/c.py", "a/__init__.py", "d.py", "e.txt", "f-g.py"]) == {
        "a.b.c": "a/b/c.py",
        "a": "a/__init__.py",
        "a.b": "",
        "d": "d.py",
    }
