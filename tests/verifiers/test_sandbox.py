"""Each wall of the sandbox, with code that runs against it."""

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from cases import folded, open_to_everybody

from rubrank.errors import InvalidInput
from rubrank.verifiers.shared import sandbox
from rubrank.verifiers.shared.inside import kernel, launcher
from rubrank.verifiers.shared.sandbox import Limits, NoIsolation, Result, SandboxFailed, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox's walls are those of Linux")


def python(code: str, **options) -> sandbox.Result:
    return run(["python", "-I", "-S", "-c", code], **options)


@pytest.fixture(scope="module")
def walls() -> tuple[str, ...]:
    found = sandbox.find_isolation()
    if not found:
        pytest.skip("this machine offers no isolation")
    return found


KINDS = {
    "best": "",
    "user": "root",
    "none": "namespaces,bubblewrap",
    "no landlock": "namespaces,bubblewrap,landlock",
    "same user": "namespaces,bubblewrap",
    "same user, old kernel": "namespaces,bubblewrap,scopes",
}


@pytest.fixture(params=KINDS)
def kind(request, monkeypatch) -> str:
    """Every kind of walls, also the poorer ones; skipped where the kernel does not offer one.

    "same user": no namespaces and no change of user, as for an ordinary caller in a container.
    """
    monkeypatch.setenv(sandbox.WITHOUT_VARIABLE, KINDS[request.param])
    if request.param.startswith("same user"):
        monkeypatch.setattr(os, "geteuid", os.geteuid if os.geteuid() else lambda: 1)
    if request.param == "no landlock" and os.geteuid():
        pytest.skip("refused: nothing keeps the files apart")
    if request.param == "user" and "user" not in sandbox.find_isolation():
        pytest.skip("no user namespaces here")
    if not sandbox.find_isolation():
        pytest.skip("this machine offers no isolation of that kind")
    return request.param


def test_output_input_and_files():
    result = python("print(input(), open('d/f').read())", stdin=b"in", files={"d/f": "file"})
    assert (result.ended, result.code, result.stdout, result.stderr) == ("exit", 0, b"in file\n", b"")
    assert result.why == "exit code 0"


def test_large_input_arrives_whole_and_unread_input_does_not_block():
    data = bytes(range(256)) * 8000
    counted = python("import sys; print(len(sys.stdin.buffer.read()))", stdin=data)
    assert counted.stdout == b"2048000\n"
    assert python("pass", stdin=data).code == 0


def test_endless_loop_is_stopped_by_the_clock():
    result = python("while True: pass", limits=Limits(seconds=0.4))
    assert (result.ended, result.code, result.why) == ("timeout", None, "out of time")


def test_sleeping_is_stopped_by_the_clock(kind):
    result = run(["sleep", "60"], limits=Limits(seconds=0.3))
    assert result.ended == "timeout"


def test_endless_loop_is_stopped_by_the_processor_limit():
    result = python("while True: pass", limits=Limits(seconds=8, cpu=1))
    assert result.ended == "signal"
    assert result.why == "killed by SIGXCPU (processor time)"


def test_memory_is_limited():
    result = python("x = bytearray(400 << 20)", limits=Limits(memory=128))
    assert result.code == 1
    assert b"MemoryError" in result.stderr


_BOMB = """
import os, sys, time
made = 0
while made < 200:
    try:
        pid = os.fork()
    except OSError:
        break
    if pid == 0:
        time.sleep(30)
        os._exit(0)
    made += 1
print(made)
"""


def test_fork_bomb_meets_the_process_limit_and_leaves_nothing():
    """Its children sleep for longer than the time limit: a run that waited for them would end as a timeout."""
    result = python(_BOMB, limits=Limits(processes=8, seconds=5))
    assert result.ended == "exit"
    assert int(result.stdout) == 7  # and the one that forks


def test_a_fork_bomb_that_never_gives_up_is_ended(kind):
    """Each process forks whenever it can; killed one after the other, they would come back."""
    mark = f"bomb{os.getpid()}{time.monotonic_ns() % 10**6}"
    if kind.startswith("same user") and os.getuid() == 0:
        pytest.skip("root's processes are not limited in number")
    script = f"b() {{ while :; do (b {mark}) & wait; done; }}; b 2>/dev/null"
    result = run(["/bin/sh", "-c", script, mark], limits=Limits(processes=8, seconds=0.7))
    assert result.ended in ("timeout", "exit", "signal")
    assert not [pid for pid in filter(str.isdigit, os.listdir("/proc")) if mark in _command(pid)]


def test_large_files_are_refused():
    result = python("open('f', 'wb').write(bytes(3 << 20))", limits=Limits(file_size=1))
    assert result.code == 1
    assert b"File too large" in result.stderr


def test_many_files_meet_the_size_of_the_directory(walls):
    if "files" not in walls:
        pytest.skip("no file isolation here")
    code = "for i in range(20): open(str(i), 'wb').write(bytes(1 << 20))"
    assert b"No space left" in python(code, limits=Limits(disk=4)).stderr


def test_flood_of_output_is_stopped():
    result = python("while True: print('x' * 4096)", limits=Limits(output=1, seconds=8))
    assert result.ended == "output"
    assert len(result.stdout) == 1 << 20


def system_python(code: str, **options) -> sandbox.Result:
    """The interpreter of the system: ours may lie in root's home, which other users cannot reach."""
    program = "/usr/bin/python3"
    if not os.path.exists(program):
        pytest.skip("no python of the system")
    return run([program, "-I", "-S", "-c", code], **options)


def test_no_sockets_not_even_to_this_machine(kind, tmp_path):
    code = "import socket\nfor f in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):\n"
    code += (
        "    try: socket.socket(f).connect(('127.0.0.1', 9)); print('open')\n    except OSError as e: print(e.errno)\n"
    )
    assert system_python(code).stdout == b"1\n1\n1\n"


def test_the_network_namespace_is_empty_even_without_the_filter(walls):
    assert "network" in walls
    assert python("print(open('/proc/net/dev').read().count(':'))").stdout in (b"1\n", b"0\n")  # lo, and it is down


def test_pairs_and_threads_and_programs_still_work():
    code = "import asyncio, subprocess, threading\nasyncio.run(asyncio.sleep(0))\n"
    code += "t = threading.Thread(target=print, args=('t',)); t.start(); t.join()\n"
    code += "print(subprocess.run(['/bin/echo', 'hi'], capture_output=True).stdout)"
    assert python(code).stdout == b"t\nb'hi\\n'\n"


def test_background_children_die_even_as_daemons(kind):
    mark = f"60.{os.getpid()}{time.monotonic_ns() % 10**6}"
    result = run(["/bin/sh", "-c", f"setsid sleep {mark} >/dev/null 2>&1 & sleep {mark} & sleep 0.1"])
    assert result.ended == "exit"  # a run that waited for the children would end as a timeout
    assert not [pid for pid in filter(str.isdigit, os.listdir("/proc")) if mark in _command(pid)]


def _command(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def test_children_die_when_the_time_is_up(kind):
    mark = f"61.{os.getpid()}{time.monotonic_ns() % 10**6}"
    assert run(["/bin/sh", "-c", f"setsid sleep {mark} & sleep 50"], limits=Limits(seconds=0.4)).ended == "timeout"
    assert not [pid for pid in filter(str.isdigit, os.listdir("/proc")) if mark in _command(pid)]


def test_the_environment_is_clean(monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "s3cret")
    result = python("import os; print(sorted(os.environ)); print(open('/proc/self/environ').read())")
    assert b"SECRET_TOKEN" not in result.stdout
    assert b"s3cret" not in result.stdout


def test_nothing_outside_can_be_written(walls, tmp_path):
    if "files" not in walls:
        pytest.skip("no file isolation here")
    tmp_path.chmod(0o777)
    code = "import sys\ntry: open(sys.argv[1], 'w'); print('written')\nexcept OSError as e: print(e.strerror)"
    result = run(["python", "-I", "-S", "-c", code, str(tmp_path / "x")])
    assert result.stdout in (b"Read-only file system\n", b"Permission denied\n", b"No such file or directory\n")
    assert not list(tmp_path.iterdir())


def test_homes_are_hidden(walls):
    if "files" not in walls:
        pytest.skip("no file isolation here")
    home = os.path.realpath(os.path.expanduser("~"))
    code = f"import os\ntry: print(os.listdir({home!r}))\nexcept PermissionError: print([])"
    seen = python(code).stdout.decode()
    kept = {Path(p).relative_to(home).parts[0] for p in (sys.prefix, sys.base_prefix) if Path(p).is_relative_to(home)}
    assert set(eval(seen)) <= kept


def test_no_privileges_are_left():
    status = python("print(open('/proc/self/status').read())").stdout.decode()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert int(fields["CapEff"], 16) == int(fields["CapPrm"], 16) == 0
    assert fields["NoNewPrivs"].strip() == "1"
    assert fields["Uid"].split()[0] != "0"


def test_the_caller_leaves_no_descriptors_behind():
    assert (
        python("import os; print(len(os.listdir('/proc/self/fd')))").stdout == b"4\n"
    )  # three, and the listing itself


def test_new_namespaces_and_tracing_are_refused(walls):
    if "calls" not in walls:
        pytest.skip("no filter for this machine")
    code = "import ctypes\nc = ctypes.CDLL(None, use_errno=True)\n"
    code += "print(c.unshare(0x10000000), ctypes.get_errno(), c.ptrace(0, 0, 0, 0), ctypes.get_errno())"
    assert python(code).stdout == b"-1 1 -1 1\n"


def test_links_lead_nowhere_and_the_directory_is_removed(kind, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("keep")
    before = set(os.listdir(tempfile.gettempdir()))
    run(["/bin/sh", "-c", f"ln -s {tmp_path} out; mkdir a; touch a/b; chmod 000 a"])
    assert precious.read_text() == "keep"
    new = [d for d in set(os.listdir(tempfile.gettempdir())) - before if d.startswith("rubrank-run-")]
    end = time.monotonic() + 60  # other tests run in other processes at the same time: theirs go in their time
    while time.monotonic() < end and any(Path(tempfile.gettempdir(), d).exists() for d in new):
        time.sleep(0.05)
    assert not [d for d in new if Path(tempfile.gettempdir(), d).exists()]


_NESTED = """
import os
for i in range(1050):  # more than Python's limit on recursion
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
    if i % 100 == 0:
        open("file", "w").close()
        os.symlink("/", "link")
os.chmod(".", 0)
print("done")
"""


def test_folders_nested_deeper_than_any_path_are_removed(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    open_to_everybody(tmp_path)
    result = system_python(_NESTED, limits=Limits(disk=256, seconds=60))
    assert result.stdout == b"done\n", result.stderr
    assert list(tmp_path.iterdir()) == []


def test_only_programs_of_the_system_are_visible(kind):
    code = """
import os
private = ["/etc/passwd", "/etc/group", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/machine-id",
           "/var/log/dpkg.log", "/proc/net/unix", "/proc/self/net/unix", "/proc/1/cmdline", "/root/.bashrc"]
for path in private:
    try:
        if open(path).read() and not path.startswith("/proc/1"):
            print(path)
    except OSError:
        pass
for folder in ("/tmp", "/var", "/home", "/run", "/etc", "/srv", "/mnt"):
    try:
        if set(os.listdir(folder)) - {os.path.basename(os.getcwd())} - {"alternatives", "ssl", "java-17-openjdk"}:
            print(folder)
    except OSError:
        pass
"""
    visible = system_python(code).stdout.decode().split()
    if kind == "no landlock":
        pytest.skip("the rights of another user do not hide what everybody may read")
    # An empty network namespace has lists of its own.
    assert [path for path in visible if "net/unix" not in path or kind.startswith("same user")] == []


@folded("name", ["/etc/x", "../x", "a/../../x", "", ".", "a\\b", "a\0b"])
def test_file_names_that_lead_out_are_refused(name):
    with pytest.raises(InvalidInput, match="relative names"):
        run(["/bin/true"], files={name: ""})


def test_unknown_programs_and_limits():
    with pytest.raises(InvalidInput, match="a program of this machine"):
        run(["no-such-program-here"])
    with pytest.raises(InvalidInput, match="memory must be more than 0"):
        Limits(memory=0)


def test_a_program_that_cannot_start_is_the_sandboxs_fault(tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    open_to_everybody(tmp_path)
    with pytest.raises(SandboxFailed, match="could not start"):
        run([str(broken)])


@pytest.mark.parametrize(
    ("without", "open_"),
    [
        ("namespaces,bubblewrap,landlock", ("memory", "files")),
        ("namespaces,bubblewrap,landlock,filter", sandbox.WALLS),
        ("namespaces,bubblewrap,filter", ("network", "signals")),
    ],
)
def test_without_isolation_code_is_refused_unless_allowed_in_words(monkeypatch, without, open_):
    monkeypatch.setenv(sandbox.WITHOUT_VARIABLE, without)
    monkeypatch.setattr(os, "geteuid", lambda: 1)
    with pytest.raises(NoIsolation, match="rubrank sandbox check") as refused:
        run(["/bin/true"])
    assert refused.value.open == open_
    assert f"RUBRANK_SANDBOX_ALLOW={','.join(open_)}" in str(refused.value)
    assert pickle.loads(pickle.dumps(refused.value)).open == open_
    monkeypatch.setenv(sandbox.ALLOW_VARIABLE, ",".join(open_[:-1]))
    with pytest.raises(NoIsolation):
        run(["/bin/true"])
    monkeypatch.setenv(sandbox.ALLOW_VARIABLE, ",".join(open_))
    assert run(["/bin/true"]).code == 0
    monkeypatch.setenv(sandbox.ALLOW_VARIABLE, "yes")
    with pytest.raises(InvalidInput, match="words of network, signals, memory, files"):
        run(["/bin/true"])


def test_no_capability_can_come_back(kind):
    status = run(["/bin/cat", "/proc/self/status"]).stdout.decode()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert int(fields["CapEff"], 16) == int(fields["CapPrm"], 16) == 0
    if os.getuid() == 0:
        assert int(fields["CapBnd"], 16) == 0


def make_old(folder: Path) -> None:
    """As if it had been made an hour ago: a younger folder may belong to a process that has just made it."""
    os.utime(folder, (time.time() - 3600, time.time() - 3600))


def run_in_new_process(environment: dict[str, str]) -> None:
    """The first run of a process removes folders that killed processes have left behind."""
    code = "from rubrank.verifiers.shared.sandbox import run; run(['true'])"
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=120)


def test_the_folder_of_a_killed_caller_is_removed(tmp_path):
    open_to_everybody(tmp_path)
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    mark = f"64.{os.getpid()}{time.monotonic_ns() % 10**6}"
    code = f"from rubrank.verifiers.shared.sandbox import run; run(['sleep', '{mark}'])"
    caller = subprocess.Popen([sys.executable, "-c", code], env=environment)
    wait_until(lambda: running(mark) > 1)
    (folder,) = tmp_path.glob("rubrank-run-*")
    make_old(folder)
    run_in_new_process(environment)
    assert folder.is_dir()  # its caller is alive
    caller.kill()
    caller.wait()
    wait_until(lambda: not running(mark))
    run_in_new_process(environment)
    assert not folder.exists()


@pytest.mark.parametrize("kind_of_folder", ["run", "stdin", "batches", "view"])
def test_only_old_folders_of_ours_are_removed(tmp_path, kind_of_folder):
    open_to_everybody(tmp_path)
    for name in (f"rubrank-{kind_of_folder}-old", f"rubrank-{kind_of_folder}-young", "rubrank-table-x"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text("x")
    make_old(tmp_path / f"rubrank-{kind_of_folder}-old")
    make_old(tmp_path / "rubrank-table-x")
    (tmp_path / "rubrank-run-link").symlink_to(tmp_path)
    run_in_new_process({**os.environ, "TMPDIR": str(tmp_path)})
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == sorted([f"rubrank-{kind_of_folder}-young", "rubrank-run-link", "rubrank-table-x"])


def test_a_killed_caller_takes_the_run_along(kind):
    mark = f"63.{os.getpid()}{time.monotonic_ns() % 10**6}"
    code = f"from rubrank.verifiers.shared.sandbox import run; run(['sleep', '{mark}'])"
    caller = subprocess.Popen([sys.executable, "-c", code])
    wait_until(lambda: running(mark) > 1)
    caller.kill()
    caller.wait()
    wait_until(lambda: not running(mark))


def running(mark: str) -> int:
    return sum(mark in _command(pid) for pid in filter(str.isdigit, os.listdir("/proc")))


def wait_until(ready) -> None:
    for _ in range(400):
        if ready():
            return
        time.sleep(0.02)
    pytest.fail("waited in vain")


def test_an_interrupted_caller_takes_the_run_along():
    def interrupt(*_):
        raise KeyboardInterrupt

    mark = f"62.{os.getpid()}{time.monotonic_ns() % 10**6}"
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.6)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(["sleep", mark])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not [pid for pid in filter(str.isdigit, os.listdir("/proc")) if mark in _command(pid)]


def test_a_signal_without_a_name_is_named_by_its_number():
    assert Result("signal", -40, b"", b"", 1.0).why == "killed by signal 40"
    assert Result("signal", -9, b"", b"", 1.0).why == "killed by SIGKILL"


def test_a_view_on_an_unknown_processor_is_an_error_that_the_launcher_reports(monkeypatch):
    monkeypatch.setattr(kernel, "find_machine", lambda: None)
    with pytest.raises(OSError, match=r"system calls of .* are not known"):
        kernel.build_view({})


def test_a_command_that_is_killed_before_it_starts_is_said_to_be(monkeypatch):
    monkeypatch.setattr(launcher, "become_command", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(ChildProcessError, match="prog: killed before it started"):
        launcher.start_command({"command": ["prog"]}, [])
