"""C++ from outputs, compiled and run on test cases in the sandbox.

>>> cpp_passes("no code here", [])
(False, 'no code')
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Sequence

from rubrank._plain import word_list
from rubrank.verifiers.shared import sandbox

_CASES = 10
_SECONDS = 3.0
_BLOCK = re.compile(r"```(?:cpp|c\+\+)([\s\S]*)```")
_INCLUDED = word_list("""
    cstdio iostream vector algorithm numeric cmath cstring set map queue stack list fstream climits cassert iomanip
    sstream bitset
""")
_HEADER = "".join(f"#include <{name}>\n" for name in _INCLUDED) + "using namespace std;\n"
_DRIVER = """
import json, subprocess, sys
given = json.load(open("given.json"))
built = subprocess.run(["g++", "-std=c++11", "-O", "-o", "main", "main.cpp"], capture_output=True)
ended = "does not compile" if built.returncode else "passed"
if not built.returncode:
    for number, (lines, wanted) in enumerate(given["cases"], 1):
        try:
            done = subprocess.run(["./main"], input=("\\n".join(lines) + "\\n").encode(), capture_output=True,
                                  timeout=given["seconds"])
        except subprocess.TimeoutExpired:
            ended = f"case {number} runs out of time"
            break
        if done.stdout != ("\\n".join(wanted) + "\\n").encode():
            ended = f"case {number} prints something else"
            break
print(given["mark"] + ended)
"""


def cpp_passes(output: str, cases: Sequence[Sequence[Sequence[str]]]) -> tuple[bool | None, str]:
    """Does the program in the output pass the first ten cases? None: it could not be tried here, and why."""
    block = _BLOCK.search(output)
    if block is None:
        return False, "no code"
    mark = secrets.token_hex(16)
    given = json.dumps({"cases": list(cases)[:_CASES], "seconds": _SECONDS, "mark": mark})
    files = {"main.cpp": _HEADER + block[1], "driver.py": _DRIVER, "given.json": given}
    limits = sandbox.Limits(seconds=20 + _CASES * _SECONDS, cpu=60, memory=2048, processes=32, output=4)
    try:
        result = sandbox.run(["python", "driver.py"], files=files, limits=limits)
    except (sandbox.NoIsolation, sandbox.SandboxFailed) as error:
        return None, f"the sandbox did not run it: {error}"
    said = result.stdout.decode("utf-8", "replace")
    if "No such file or directory: 'g++'" in result.stderr.decode("utf-8", "replace"):
        return None, "g++ is not installed"
    if mark not in said:
        return False, result.why
    ended = said.split(mark)[-1].strip()
    return ended == "passed", ended
