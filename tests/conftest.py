"""What all tests share: signals as in a terminal, one thread a library, and registries that forget."""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.testing
from cases import FULL, QUICK, USUAL
from crashed_workers import pytest_sessionfinish, pytest_terminal_summary, pytest_testnodedown  # noqa: F401
from hypothesis import HealthCheck, settings

# Before numpy or torch is imported: the tests run in one process a core, and threads below that only get in the way.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("POLARS_MAX_THREADS", "1")
# Inspect keeps traces below the home directory, which may be one that cannot be written.
if not os.access(Path.home(), os.W_OK):
    os.environ.setdefault("XDG_DATA_HOME", str(Path(tempfile.gettempdir()) / f"rubrank-tests-{os.getuid()}"))
# typer builds all commands anew for every line, which takes longer than most of our verbs.
typer.testing._get_command = cache(typer.testing._get_command)

# A busy machine is no fault of the code: no deadlines, and slow drawing of inputs is not one either.
_PATIENT = {"deadline": None, "derandomize": True, "print_blob": True, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("rubrank", max_examples=USUAL, **_PATIENT)
settings.register_profile("quick", max_examples=QUICK, **_PATIENT)
settings.register_profile("thorough", max_examples=FULL, **_PATIENT)
settings.load_profile("rubrank")
# By processor time, or by the time that they wait.
LONGEST = (
    *("test_escapes", "test_train_verb", "test_trl_processes", "test_tiny_agent", "test_real_model", "test_kills"),
    *("test_evolution_runs", "test_grade", "test_concurrency", "test_hostile", "test_audit", "test_report_browser"),
    *("test_train_runs", "test_programs", "test_record_rotation", "test_extending", "test_crashed_worker"),
    *(
        "test_batches",
        "test_stalls",
        "test_site",
        "test_lab_verb",
        "test_trl_runs",
        "test_shapes",
        "test_service_judged",
    ),
    *("test_wrong_programs", "test_training_benchmark", "test_latency_benchmark", "test_gate_classes"),
    *("test_warm_up", "test_notebooks", "test_published", "test_grading_edges", "test_sandbox", "test_viewer_browser"),
)
SLOW_FILE = re.compile(r"^pytestmark\b.*\bslow\b", re.MULTILINE)


def is_quick(config: pytest.Config) -> bool:
    return bool(config.option.markexpr == "not slow")


def pytest_configure(config: pytest.Config) -> None:
    """`nohup make test &` starts with SIGINT ignored, which every child would inherit; the tests interrupt some."""
    if is_quick(config):
        settings.load_profile("quick")
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """What is collected stays to the end: looking through it for garbage, again and again, took a tenth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 20, 20)
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long files first, then those with slow tests: at the end, short ones keep all workers busy."""
    slow = set() if is_quick(config) else {item.path for item in items if item.get_closest_marker("slow")}
    rank = {name: i for i, name in enumerate(LONGEST)}
    items.sort(key=lambda item: (rank.get(item.path.stem, len(rank)), item.path not in slow))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files of slow tests only are not even imported for `make quick`: most of them load torch."""
    if is_quick(config) and collection_path.name.startswith("test_") and collection_path.suffix == ".py":
        return bool(SLOW_FILE.search(collection_path.read_text(encoding="utf-8"))) or None
    return None


# Where names are registered, and which of them are the library's: those stay, whoever was the first to load them.
REGISTRIES: dict[tuple[str, str], Callable[[str, Any], bool]] = {
    ("rubrank.verifiers.verifier", "VERIFIERS"): lambda name, found: found.function.__module__.startswith("rubrank."),
    ("rubrank.fusion.rules", "RULES"): lambda name, found: isinstance(found, str) or found.__module__[:8] == "rubrank.",
    ("rubrank.fusion.models.model", "_models"): lambda name, found: name in ("bradley-terry", "thurstone", "borda"),
    ("rubrank.fusion.models.model", "_sources"): lambda name, found: found.__module__.startswith("rubrank."),
    ("rubrank.fusion.control.attributes", "ATTRIBUTES"): lambda name, found: (
        name.endswith("_length") or name in ("markdown", "markup")
    ),
    ("rubrank.fusion.control.attributes", "_sources"): lambda name, found: False,
    ("rubrank.judges", "KINDS"): lambda name, found: isinstance(found, str),
}


@pytest.fixture(autouse=True)
def _registries_forget() -> Iterator[None]:
    """What a test registers is gone after it; what its file registers stays."""
    before = {key: dict(registry) for key, registry in _registries()}
    yield
    for key, registry in _registries():
        known = before.get(key, {})
        for name, found in list(registry.items()):
            if name not in known and not REGISTRIES[key](name, found):
                del registry[name]
        registry.update({name: found for name, found in known.items() if not REGISTRIES[key](name, found)})


def _registries() -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    for module, name in REGISTRIES:
        if module in sys.modules:
            yield (module, name), getattr(sys.modules[module], name)
