"""Programs in seven languages, queries, and what agents did: beyond the examples."""

import os
from pathlib import Path

import pytest
from cases import open_to_everybody, spread

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.code import programs
from rubrank.verifiers.shared import sandbox
from rubrank.verifiers.verifier import Verdict, find_verifier


def verdict(name: str, response: str, params: dict | None = None, **rollout) -> Verdict:
    found = find_verifier(name)
    return found.verify(Rollout(response=response, **rollout), found.check_parameters(params or {}))


PROGRAMS = {
    "python": "a, b = map(int, input().split())\nprint(a + b)",
    "cpp": "#include <iostream>\nint main() { int a, b; std::cin >> a >> b; std::cout << a + b << '\\n'; }",
    "java": "import java.util.*;\npublic class Main { public static void main(String[] x) {"
    " Scanner s = new Scanner(System.in); System.out.println(s.nextInt() + s.nextInt()); } }",
    "javascript": "const [a, b] = require('fs').readFileSync(0, 'utf8').trim().split(/\\s+/).map(Number);\n"
    "console.log(a + b)",
    "go": 'package main\nimport "fmt"\nfunc main() { var a, b int; fmt.Scan(&a, &b); fmt.Println(a + b) }',
    "rust": "use std::io::*;\nfn main() { let mut s = String::new(); stdin().read_to_string(&mut s).unwrap();"
    " let v: Vec<i64> = s.split_whitespace().map(|x| x.parse().unwrap()).collect();"
    ' println!("{}", v[0] + v[1]); }',
    "bash": "read a b\necho $((a + b))",
}


@pytest.fixture
def isolated():
    if not sandbox.find_isolation():
        pytest.skip("this machine offers no isolation")


@pytest.mark.slow
@pytest.mark.usefixtures("isolated")
@pytest.mark.parametrize("language", PROGRAMS)
def test_a_program_in_each_language(language):
    if programs.find_tool(language) is None:
        pytest.skip(f"no {programs.RECIPES[language].tool} here")
    tests = [{"input": "1 2", "output": "3"}, {"input": "5 6", "output": "12"}]
    found = verdict("CodePasses", f"```{language}\n{PROGRAMS[language]}\n```", {"tests": tests})
    assert found.value == 0.5, found.reason
    broken = verdict("CodePasses", f"```{language}\n((((\n```", {"tests": tests})
    assert broken.value == 0, broken.reason


_READERS = {
    "python": "print(open('{path}').read())",
    "cpp": '#include <fstream>\n#include <iostream>\nint main() {{ std::cout << std::ifstream("{path}").rdbuf(); }}',
    "java": "import java.nio.file.*;\npublic class Main {{ public static void main(String[] x) throws Exception {{"
    ' System.out.println(Files.readString(Path.of("{path}"))); }} }}',
    "javascript": "console.log(require('fs').readFileSync('{path}', 'utf8'))",
    "go": 'package main\nimport ("fmt"; "os")\nfunc main() {{ b, _ := os.ReadFile("{path}"); fmt.Println(string(b)) }}',
    "rust": 'fn main() {{ println!("{{}}", std::fs::read_to_string("{path}").unwrap()); }}',
    "bash": "cat {path}",
}
_READERS_AT_COMPILE_TIME = {
    "cpp": '#include <cstdio>\nasm(".section .rodata\\ntext: .incbin \\"{path}\\"\\n.byte 0\\n.text");\n'
    'extern const char text[] asm("text");\nint main() {{ puts(text); }}',
    "rust": 'fn main() {{ println!("{{}}", include_str!("{path}")); }}',
    "go": 'package main\n// asm(".section .rodata\\ntext: .incbin \\"{path}\\"\\n.byte 0\\n.text");\n'
    '// extern const char text[] asm("text");\n// static const char *get(void) {{ return text; }}\nimport "C"\n'
    'import "fmt"\nfunc main() {{ fmt.Println(C.GoString(C.get())) }}',
}


@pytest.mark.slow
@pytest.mark.usefixtures("isolated")
@pytest.mark.parametrize("language", _READERS)
@pytest.mark.parametrize("without", spread(["", "namespaces", "namespaces,bubblewrap"], every=2))
def test_no_language_reads_files_of_the_machine(language, without, monkeypatch, tmp_path):
    """Neither the program nor its compiler sees them; a file that may be read shows that the program works."""
    if programs.find_tool(language) is None:
        pytest.skip(f"no {programs.RECIPES[language].tool} here")
    monkeypatch.setenv(sandbox.WITHOUT_VARIABLE, without)
    if without:  # as for an ordinary user: no change of user, either
        monkeypatch.setattr(os, "geteuid", os.geteuid if os.geteuid() else lambda: 1)
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    secret.chmod(0o644)
    open_to_everybody(tmp_path)
    readable = "/usr/share/common-licenses/BSD"
    for readers in (_READERS, _READERS_AT_COMPILE_TIME):
        for path in (readable, "/etc/passwd", str(secret)):
            if language not in readers or not Path(path).exists():
                continue
            block = f"```{language}\n{readers[language].format(path=path)}\n```"
            tests = [{"input": "", "output": Path(path).read_text()}]
            answer = verdict("CodePasses", block, {"tests": tests})
            assert answer.value == (path == readable), (path, answer.reason)


def test_a_language_without_a_compiler_is_missing(monkeypatch):
    monkeypatch.setattr(programs, "find_tool", lambda language: None)
    found = verdict("CodePasses", "```go\nx\n```", {"tests": [{"output": "1"}]})
    assert found == Verdict(None, "this machine has no go, which go needs")


@pytest.mark.usefixtures("isolated")
@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("while True: pass", "out of time"),
        ("x = bytearray(1 << 30)", "MemoryError"),
        ("import os; os.kill(os.getppid(), 9); print(1)", "was not finished|exit code|passed"),
        ("while True: print('x' * 10000)", "out of time|exit code|finished"),
        ("open('/etc/passwd', 'a')", "exit code 1"),
    ],
)
def test_programs_that_misbehave_get_nothing(code, why):
    found = verdict("CodePasses", f"```python\n{code}\n```", {"tests": [{"output": "2"}], "seconds": 0.7})
    assert found.value == 0
    assert any(word in found.reason for word in why.split("|")), found.reason


@pytest.mark.usefixtures("isolated")
def test_a_process_left_in_the_background_does_not_keep_the_program_from_passing():
    tests = [{"input": "1 2", "output": "3"}]
    found = verdict("CodePasses", "```bash\nsleep 60 &\nread a b\necho $((a + b))\n```", {"tests": tests, "seconds": 5})
    assert found.value == 1, found.reason


@pytest.mark.usefixtures("isolated")
def test_a_checker_that_fails_is_missing():
    params = {"tests": [{"output": "2"}], "checker": "1 / 0"}
    assert verdict("CodePasses", "```python\nprint(2)\n```", params).value is None


_TABLES = "CREATE TABLE t (n INT, x REAL); INSERT INTO t VALUES (1, 0.1), (2, 0.2), (2, 0.2)"


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("SELECT sum(x) FROM t", 1),
        ("SELECT 0.5", 1),
        ("SELECT sum(n) FROM t", 0),
        ("SELECT x FROM t", 0),
        ("ATTACH '/tmp/x' AS y", 0),
        ("PRAGMA table_info(t)", 0),
        ("SELECT load_extension('x')", 0),
        ("SELECT readfile('/etc/passwd')", 0),
        ("SELECT * FROM sqlite_master, t a, t b, t c", 0),
        ("SELECT" * 9000, 0),
        ("SELECT " + "(" * 5000 + "1" + ")" * 5000, 0),
        ("SELECT zeroblob(2000000000)", 0),
    ],
)
def test_queries(query, value):
    params = {"expected": "SELECT sum(x) FROM t", "schema": _TABLES}
    found = verdict("SqlMatch", f"```sql\n{query}\n```", params)
    assert found.value == value, found.reason


def test_queries_of_another_dialect_are_translated():
    params = {"expected": "SELECT n FROM t LIMIT 1", "schema": _TABLES, "dialect": "tsql"}
    assert verdict("SqlMatch", "```sql\nSELECT TOP 1 [n] FROM t\n```", params).value == 1
    assert verdict("SqlMatch", "```tsql\nSELECT TOP 1 [n] FROM t\n```", params).value == 1


def test_a_reference_that_cannot_be_run_is_missing():
    assert verdict("SqlMatch", "SELECT 1", {"expected": "SELECT nothing", "schema": _TABLES}).value is None
    assert verdict("SqlMatch", "SELECT 1", {"expected": "DROP TABLE t", "schema": _TABLES}).value is None


def test_traces_of_chat_messages():
    call = {"id": "1", "type": "function", "function": {"name": "search", "arguments": '{"q": "Paris"}'}}
    messages = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "Error: down"},
        {"role": "assistant", "content": "", "tool_calls": [{**call, "id": "2"}]},
        {"role": "tool", "tool_call_id": "2", "content": "found"},
        {"role": "assistant", "content": "Paris."},
    ]
    found = {
        "ToolCalled": {"tool": "search", "at_least": 2},
        "ToolArgument": {"tool": "search", "argument": "q", "value": "Paris", "every": True},
        "EndsWithoutError": {},
        "StepLimit": {"most": 2},
    }
    for name, params in found.items():
        assert verdict(name, messages, params).value == 1, name
    assert verdict("NoRepeatedCall", messages).value == 0
    assert verdict("NoRepeatedCall", messages, {"same_result": True}).value == 1


def test_all_or_nothing_says_which_test_failed():
    tests = [{"input": str(n), "output": str(n)} for n in (1, 2, 7, 4)]
    tests[2]["output"] = "8"
    params = {"tests": tests, "score": "all"}
    found = verdict("CodePasses", "```python\nprint(input())\n```", params)
    if found.value is None:
        pytest.skip(found.reason)
    assert found.value == 0
    assert found.reason.startswith("3 of 4 tests passed; test 3: '8' expected")
    tests[2]["output"] = "7"
    assert verdict("CodePasses", "```python\nprint(input())\n```", params).reason == "4 of 4 tests passed"


def test_a_compiler_that_the_sandbox_stops_is_said_to_be(monkeypatch):
    stopped = sandbox.Result("killed", None, b"", b"", 1.0)
    monkeypatch.setattr(programs, "find_tool", lambda language: ("/usr/bin/c++", ()))
    monkeypatch.setattr(sandbox, "run", lambda *_, **__: stopped)
    monkeypatch.setattr(programs, "_compile_smallest", lambda language: [])
    found = verdict("CodePasses", "```cpp\nint main() { return 0; }\n```", {"tests": [{"output": ""}]})
    assert (found.value, found.reason) == (0, "it does not compile: killed")
