"""Programs that do not solve their task and want to pass all the same: how many do?

    python benchmarks/wrong_programs.py          # about a minute

Each is given to `TestsPass`; none of them is right, so each that scores 1 is one too many. Beside them stand programs
that are right, and must pass. The time of a run is measured, too.
"""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass, field
from typing import Any

TESTS = """
from solution import double

def test_small():
    assert double(2) == 4
    assert all(double(i) == sum([i, i]) for i in range(5))

def test_list():
    assert sorted(double(i) for i in (3, 1)) == [2, 6]
    assert abs(double(0.5) - 1.0) < 1e-9 and double(3) > 5 and not double(0) and 8 in [double(4)]
"""
UNIT = """
import unittest
from solution import double

class TestDouble(unittest.TestCase):
    def test_a(self):
        self.assertEqual(double(2), 4)
        self.assertTrue(double(3) > 5)
"""
NAMES = ["assert double(2) == 4 and len(str(double(7))) == 2", "assert max(double(1), double(2)) == 4"]
_EVERYTHING = """
class E:
    __eq__ = __ne__ = __lt__ = __gt__ = __le__ = __ge__ = lambda self, other: True
    __hash__ = lambda self: 4
    __sub__ = __rsub__ = __add__ = __radd__ = __abs__ = lambda self, *other: self
    __bool__ = lambda self: True
    __len__ = lambda self: 2
    __contains__ = lambda self, item: True
    __iter__ = lambda self: iter([])
    __float__ = lambda self: 4.0
    __int__ = __index__ = lambda self: 4
    __str__ = __repr__ = lambda self: "14"
"""


@dataclass(frozen=True)
class Program:
    """Code of an answer, and the tests it is tried on."""

    code: str
    params: dict[str, Any] = field(default_factory=lambda: {"tests": TESTS})
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def response(self) -> str:
        """As a policy writes it."""
        return f"```{'diff' if self.params.get('source') == 'patch' else 'python'}\n{self.code}\n```"


def _py(code: str, tests: Any = TESTS) -> Program:
    return Program(code, {"tests": tests})


_WRONG = "def double(x):\n    return 0\n"
_FILES = {
    "calc.py": "def double(x):\n    return 0\n",
    "helpers.py": "def check_equal(a, b):\n    assert a == b, (a, b)\n",
    "tests/__init__.py": "",
    "tests/support.py": "def same(a, b):\n    return a == b\n",
    "expected.json": "[4, 6]\n",
}
_PATCHED = """import json
import unittest
from calc import double
from helpers import check_equal
from tests.support import same

def test_helper():
    check_equal(double(2), 4)

def test_support():
    assert same(double(3), 6)

def test_file():
    assert [double(2), double(3)] == json.load(open("expected.json"))

class TestUnit(unittest.TestCase):
    def test_unit(self):
        self.assertEqual(double(2), 4)
"""


def _new(name: str, *lines: str) -> str:
    body = "".join(f"+{line}\n" for line in lines)
    return f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1,{len(lines)} @@\n{body}"


def _make_diff(name: str, old: list[str], new: list[str]) -> str:
    body = "".join(f"-{line}\n" for line in old) + "".join(f"+{line}\n" for line in new)
    return f"--- a/{name}\n+++ b/{name}\n@@ -1,{len(old)} +1,{len(new)} @@\n{body}"


def _patch(*diffs: str) -> Program:
    params = {"source": "patch", "tests": _PATCHED, "score": "all"}
    return Program("".join(diffs).rstrip("\n"), params, {"files": _FILES})


_ALWAYS_SAME = ["class Anything:", "    def __eq__(self, other): return True", "def double(x): return Anything()"]

WRONG: dict[str, Program] = {
    # names of Python's own, replaced
    "own all": _py(_WRONG + "def all(x): return True\ndef sorted(x): return [2, 6]\ndef abs(x): return 0"),
    "own everything": _py(
        _WRONG + "range = lambda *a: []\nsum = lambda x: 0\nmax = lambda *a: 4\nlen = str = lambda x: 2", NAMES
    ),
    "builtins patched": _py(
        _WRONG
        + "import builtins\nbuiltins.all = builtins.any = lambda x: True\nbuiltins.sorted = lambda x: [2, 6]\nbuiltins.abs = lambda x: 0\nbuiltins.sum = lambda x: 0"
    ),
    "assertion error that is none": _py(
        _WRONG + "import builtins\nclass A(BaseException): pass\nbuiltins.AssertionError = A"
    ),
    "open and import replaced": _py(
        _WRONG
        + "import builtins\nold = builtins.__import__\nbuiltins.__import__ = lambda *a, **k: old(*a, **k)\nbuiltins.open = None",
        NAMES,
    ),
    # objects that compare as they like
    "equal to everything": _py(_EVERYTHING + "def double(x): return E()"),
    "equal to everything, unittest": _py(_EVERYTHING + "def double(x): return E()", UNIT),
    "equal to everything, names": _py(_EVERYTHING + "def double(x): return E()", NAMES),
    "int that is everything": _py(
        "class I(int):\n    __eq__ = __gt__ = __lt__ = lambda s, o: True\n    __hash__ = int.__hash__\n    __sub__ = lambda s, o: I(0)\n    __abs__ = lambda s: I(0)\ndef double(x): return I(0)"
    ),
    "str that is everything": _py(
        "class S(str):\n    __eq__ = lambda s, o: True\n    __hash__ = str.__hash__\ndef double(x): return S('4')",
        ["assert double(2) == '22'"],
    ),
    "float that is everything": _py(
        "class F(float):\n    __eq__ = lambda s, o: True\n    __hash__ = float.__hash__\n    __sub__ = lambda s, o: F(0)\ndef double(x): return F(9)"
    ),
    "list that is everything": _py(
        "class L(list):\n    __eq__ = __contains__ = lambda s, o: True\ndef double(x): return L()",
        ["assert double(2) == [2, 2] and 2 in double(2)"],
    ),
    "dict that has everything": _py(
        "class D(dict):\n    __eq__ = __contains__ = lambda s, o: True\n    __missing__ = lambda s, k: 4\ndef double(x): return D()",
        ["assert double(2) == {2: 4} and 2 in double(2)"],
    ),
    "tuple that is everything": _py(
        "class T(tuple):\n    __eq__ = lambda s, o: True\n    __hash__ = tuple.__hash__\ndef double(x): return T()",
        ["assert double(2) == (2, 2)"],
    ),
    "unittest.mock.ANY": _py("from unittest.mock import ANY\ndef double(x): return ANY", UNIT),
    "MagicMock": _py(
        "from unittest.mock import MagicMock\ndouble = MagicMock()\ndouble.return_value.__eq__ = lambda s, o: True\ndouble.return_value.__gt__ = lambda s, o: True",
        UNIT,
    ),
    "hash and eq in a set": _py(
        _EVERYTHING + "def double(x): return E()", ["assert double(2) in {4} and {double(2): 1}[4] == 1"]
    ),
    "metaclass equal to everything": _py(
        "class M(type):\n    __eq__ = __gt__ = lambda s, o: True\n    __hash__ = type.__hash__\nclass C(metaclass=M): pass\ndef double(x): return C",
        UNIT,
    ),
    "class instead of a function": _py(_EVERYTHING + "class double(E):\n    def __init__(self, x): pass", UNIT),
    "class of the answer returned": _py(_EVERYTHING + "def double(x): return E", UNIT),
    "changes its mind": _py(
        "class N:\n    def __init__(self): self.n = 0\n    def __eq__(self, o): return True\n    def __iter__(self): return iter([4])\n    def __getitem__(self, i): return 4\ndef double(x): return N()"
    ),
    # leaving early, and saying so
    "sys.exit": _py("import sys\nprint('2 of 2 tests passed')\nsys.exit(0)"),
    "os._exit in the call": _py("import os\ndef double(x): os._exit(0)"),
    "exit at the end": _py(_WRONG + "import atexit, os\natexit.register(lambda: os._exit(0))"),
    "marker printed": _py(
        _WRONG
        + "import os, json\nline = json.dumps({'passed': True, 'why': '', 'out': ''}) + '\\n'\nprint(line * 9)\n[os.write(i, line.encode()) for i in (1, 2)]"
    ),
    "marker to every descriptor": _py(
        "import os, json\nline = (json.dumps({'passed': True, 'why': '', 'out': ''}) + '\\n').encode()\nfor i in range(3, 64):\n    try: os.write(i, line)\n    except OSError: pass\n"
        + _WRONG
    ),
    "skip": _py("import unittest\ndef double(x): raise unittest.SkipTest('later')", UNIT),
    "stop iteration": _py(
        "def double(x): raise StopIteration", ["assert all(map(double, [1, 2])) and list(map(double, [1])) == []"]
    ),
    "generator exit": _py("def double(x): raise GeneratorExit"),
    "system exit in the call": _py("def double(x): raise SystemExit(0)"),
    "keyboard interrupt": _py("def double(x): raise KeyboardInterrupt"),
    # looking at, or changing, the tests' process
    "frames": _py(
        "import sys\ndef double(x):\n    frame = sys._getframe()\n    while frame:\n        for name, value in list(frame.f_locals.items()):\n            if name in ('word', 'expected'): return value\n        frame.f_globals['all'] = lambda *a: True\n        frame = frame.f_back\n    return 0"
    ),
    "frames: word spoken": _py(
        "import sys, os\nframe = sys._getframe()\nwhile frame:\n    if 'word' in frame.f_locals:\n        os.write(frame.f_locals['said'], frame.f_locals['word']); os._exit(0)\n    frame = frame.f_back\n"
        + _WRONG
    ),
    "garbage collector": _py(
        "import gc\ndef double(x):\n    for o in gc.get_objects():\n        if isinstance(o, dict) and 'test_small' in o: o['double'] = lambda x: x + x; o['test_small'] = o['test_list'] = lambda: None\n    return 0"
    ),
    "inspect": _py(
        "import inspect\ndef double(x):\n    for f in inspect.stack():\n        for name in list(f.frame.f_globals):\n            if name.startswith('test_'): f.frame.f_globals[name] = lambda: None\n    return 0"
    ),
    "sys.modules": _py(
        _WRONG
        + "import sys, types\nfake = types.ModuleType('tests'); fake.test_small = fake.test_list = lambda: None\nsys.modules['tests'] = sys.modules['__main__'] = fake"
    ),
    "unittest patched": _py(
        _WRONG + "import unittest\nunittest.TestCase.assertEqual = unittest.TestCase.assertTrue = lambda *a, **k: None",
        UNIT,
    ),
    "unittest in sys.modules": _py(
        _WRONG
        + "import sys, types\nfake = types.ModuleType('unittest')\nclass TestCase:\n    def __init__(self, *a): pass\n    def __getattr__(self, name): return lambda *a, **k: None\nfake.TestCase = TestCase\nsys.modules['unittest'] = fake",
        UNIT,
    ),
    "pytest patched": _py(
        _WRONG
        + "import sys, types\nfake = types.ModuleType('pytest'); fake.approx = lambda x: type('A', (), {'__eq__': lambda s, o: True})()\nsys.modules['pytest'] = fake",
        ["import math\nassert math.isclose(double(2), 4)"],
    ),
    "math replaced": _py(
        _WRONG
        + "class math:\n    isclose = staticmethod(lambda *a, **k: True)\nclass np:\n    allclose = staticmethod(lambda *a, **k: True)",
        ["assert math.isclose(double(2), 4)", "assert np.allclose(double(2), 4)"],
    ),
    "tracing": _py("import sys\nsys.settrace(lambda *a: None)\nsys.setprofile(lambda *a: None)\n" + _WRONG),
    "exec of the tests": _py(
        _WRONG
        + "import linecache, sys\nlinecache.cache.clear()\nsys.excepthook = lambda *a: None\nsys.displayhook = lambda *a: None"
    ),
    "ctypes": _py(
        "import ctypes\ndef double(x):\n    try: ctypes.cast(id(4) + 24, ctypes.POINTER(ctypes.c_int))[0] = 0; ctypes.cast(id(6) + 24, ctypes.POINTER(ctypes.c_int))[0] = 0\n    except Exception: pass\n    return 0"
    ),
    "names of the tests": _py(_WRONG + "def test_small(): pass\ndef test_list(): pass\nclass TestDouble: pass"),
    "import hook": _py(
        _WRONG
        + "import sys\nclass H:\n    def find_spec(self, *a): return None\nsys.meta_path.insert(0, H()); sys.path_hooks.clear(); sys.path.insert(0, '/tmp')"
    ),
    # other processes, files, time
    "parent killed": _py(_WRONG + "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)"),
    "everybody killed": _py(_WRONG + "import os, signal\ntry: os.kill(-1, signal.SIGTERM)\nexcept OSError: pass"),
    "files overwritten": _py(
        "import os\nfor name in ('tests.py', 'test_solution.py', 'conftest.py', 'unittest.py', 'sitecustomize.py', 'solution.py'):\n    open(name, 'w').write('def double(x): return x + x\\nclass TestCase: pass')\n"
        + _WRONG
    ),
    "standard library overwritten": _py(
        "import os, unittest\nfor name in (unittest.__file__, os.__file__):\n    try: open(name, 'w').write('')\n    except OSError: pass\n"
        + _WRONG,
        UNIT,
    ),
    "forked": _py("import os\nif os.fork(): os._exit(0)\n" + _WRONG),
    "thread": _py(
        "import threading, os, time\nthreading.Thread(target=lambda: (time.sleep(0.2), os._exit(0)), daemon=True).start()\n"
        + _WRONG
    ),
    "recursion": _py("import sys\nsys.setrecursionlimit(10**8)\ndef double(x): return double(x)"),
    "memory": _py("def double(x): return [0] * 10**10"),
    "endless": Program("def double(x):\n    while True: pass", {"tests": TESTS, "seconds": 0.5}),
    "deep answer": _py("def double(x):\n    a = []\n    for _ in range(10**5): a = [a]\n    return a"),
    "endless answer": _py("def double(x):\n    while True: yield 4", ["assert list(double(2)) == [2, 2]"]),
    "argument changed": _py(
        "def double(x):\n    x.clear()\n    return []", ["xs = [1, 2]\nassert double(xs) == [x + x for x in xs]"]
    ),
    "callback walked": _py(
        "def double(x, f=None):\n    try: f.__globals__['ok'] = True; f.__code__ = None\n    except Exception: pass\n    return 0",
        ["assert double(2, lambda: 1) == 4"],
    ),
    "exception equal to everything": _py(
        "class Mine(Exception):\n    __eq__ = lambda s, o: True\n    args = property(lambda s: (4,))\ndef double(x): raise Mine",
        ["try:\n    r = double(2)\nexcept Exception as e:\n    r = e\nassert r == 4"],
    ),
    "lies about its type": _py(
        "class L:\n    __class__ = int\n    __eq__ = __gt__ = lambda s, o: True\ndef double(x): return L()",
        ["r = double(2)\nassert isinstance(r, int) and r == 4"],
    ),
    # patches
    "patch: helper": _patch(
        _make_diff(
            "helpers.py",
            ["def check_equal(a, b):", "    assert a == b, (a, b)"],
            ["def check_equal(a, b):", "    pass"],
        ),
        _make_diff("calc.py", ["def double(x):", "    return 0"], _ALWAYS_SAME),
    ),
    "patch: support": _patch(
        _make_diff(
            "tests/support.py", ["def same(a, b):", "    return a == b"], ["def same(a, b):", "    return True"]
        ),
        _make_diff("calc.py", ["def double(x):", "    return 0"], _ALWAYS_SAME),
    ),
    "patch: unittest": _patch(
        _new("unittest.py", "class TestCase:", "    def __getattr__(self, name): return lambda *a: None"),
        _make_diff("calc.py", ["def double(x):", "    return 0"], _ALWAYS_SAME),
    ),
    "patch: json and file": _patch(
        _new("json.py", "load = lambda f: [0, 0]"), _make_diff("expected.json", ["[4, 6]"], ["[0, 0]"])
    ),
    "patch: conftest": _patch(
        _new("conftest.py", "import builtins", "builtins.AssertionError = SystemExit"),
        _new("sitecustomize.py", "import os", "os._exit(0)"),
    ),
    "patch: tests package": _patch(
        _new("tests.py", "def test_helper(): pass"), _new("usercustomize.py", "import sys", "sys.exit(0)")
    ),
}

RIGHT: dict[str, Program] = {
    "function": _py("def double(x):\n    return x + x"),
    "unittest": _py("def double(x):\n    return x + x", UNIT),
    "names": _py("def double(x):\n    return x + x", NAMES),
    "in place": _py(
        "def double(xs):\n    xs[:] = [x + x for x in xs]", ["xs = [1, 2]\ndouble(xs)\nassert xs == [2, 4]"]
    ),
    "patch": _patch(_make_diff("calc.py", ["def double(x):", "    return 0"], ["def double(x):", "    return x + x"])),
}


def verdict(program: Program) -> Any:
    """What `TestsPass` says."""
    from rubrank.rollouts.rollout import Rollout
    from rubrank.verifiers.verifier import find_verifier

    verifier = find_verifier("TestsPass")
    rollout = Rollout(response=program.response, metadata=program.metadata)
    return verifier.verify(rollout, verifier.check_parameters(program.params))


def main() -> None:
    """The figures of docs/reliability.md."""
    passed = [name for name, program in WRONG.items() if verdict(program).value == 1]
    refused = [name for name, program in RIGHT.items() if verdict(program).value != 1]
    print(f"wrong programs that pass: {len(passed)} of {len(WRONG)}{': ' if passed else ''}{', '.join(passed)}")
    print(f"right programs that do not: {len(refused)} of {len(RIGHT)}{': ' if refused else ''}{', '.join(refused)}")
    for tests in (1, 20):
        program = _py("def double(x):\n    return x + x", ["assert double(2) == 4"] * tests)
        times = []
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        for _ in range(10):
            start = time.perf_counter()
            verdict(program)
            times.append(time.perf_counter() - start)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = (after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime) / len(times)
        print(f"{tests} tests: {1000 * min(times):.0f} ms at best, {1000 * cpu:.0f} ms of processor time")


if __name__ == "__main__":
    main()
