"""Make an engine from a settings file, for trainers that only take the path of a function or of a Python file.

    reward.yaml
      rubric: rubric.yaml              # or a preset, or the criteria themselves; a query's own rubric is added
      rule: rlvr2+
      judges: judges.yaml              # or the judges themselves
      attributes: [markdown, {name: reasoning_length, attenuate: 0.5, start: 700}]
      records: records.jsonl

    RUBRANK_CONFIG=/abs/reward.yaml                        every process of the trainer finds it there
    python -m rubrank.training.config reward.yaml          check it before a model is loaded

The keys are those of `RewardEngine`, and two more: `rubric_column`, the column of a row's own rubric, and `imports`,
modules that register your own verifiers. Paths are relative to the file, because the workers of a cluster have other
working directories.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from rubrank._files import require_file
from rubrank._plain import validate_model
from rubrank.errors import InvalidInput, RubrankError
from rubrank.judges.judge import load_judges
from rubrank.options import EngineOptions, option
from rubrank.rubrics.files import read_settings
from rubrank.training.engine import RewardEngine

EngineSource: TypeAlias = RewardEngine | str | Path | None
"""What adapters take: an engine, or the path of a configuration; None: the path in RUBRANK_CONFIG."""
VARIABLE = "RUBRANK_CONFIG"
_PAGE = "frameworks"


class RewardConfig(EngineOptions):
    """The keys of a configuration file."""

    rubric_column: str = option("rubric", "Column in which a row has its own rubric.")
    imports: tuple[str, ...] = option(
        (), "Modules that register your own verifiers, rules or attributes."
    )

    def engine(self, folder: Path = Path(), *, process: str = "") -> RewardEngine:
        """Make the engine.

        folder: paths are relative to it.
        process: added to the name of the records file, if several processes write records.
        """
        for module in self.imports:
            try:
                importlib.import_module(module)
            except ImportError as error:
                remedy = "Put its folder on PYTHONPATH, in every process."
                raise InvalidInput(
                    "imports", "module", "one that can be imported", str(error), remedy
                ) from None
        records = None if self.records is None else folder / self.records
        if records is not None and process:
            name, dot, suffix = records.name.partition(".")
            records = records.with_name(f"{name}-{process}{dot}{suffix}")
        options = {
            name: getattr(self, name)
            for name in EngineOptions.model_fields
            if name in self.model_fields_set
        }
        options["rubric"] = _find_file(folder, self.rubric)
        if isinstance(self.judges, Mapping):
            options["judges"] = load_judges(self.judges, folder=folder)
        else:
            options["judges"] = _find_file(folder, self.judges)
        options["records"] = records
        if self.cache is not None:
            options["cache"] = folder / self.cache
        return RewardEngine(**options)


def load_config(source: str | Path | None = None) -> tuple[RewardConfig, Path]:
    """Read a configuration; returns it with its folder. source: its path; None: the file that RUBRANK_CONFIG names."""
    path = Path(source or os.environ.get(VARIABLE) or "")
    if not path.name:
        remedy = f"Such as {VARIABLE}=/abs/reward.yaml, in the environment of all workers. See `rubrank help {_PAGE}`."
        raise InvalidInput(VARIABLE, "value", "the path of a configuration", "none", remedy)
    if not source:
        require_file(path, owner=VARIABLE, what="value", remedy="Use an absolute path.")
    data = read_settings(path)
    if not isinstance(data, Mapping):
        got = "nothing" if data is None else type(data).__name__
        raise InvalidInput(
            str(path), "file", "keys and values", got, f"See `rubrank help {_PAGE}`."
        )
    return validate_model(RewardConfig, data, str(path), _PAGE), path.resolve().parent


def load_engine(
    source: EngineSource,
    owner: str,
    *,
    process: str = "",
    passes_step: bool = True,
) -> tuple[RewardEngine, str]:
    """The engine of an adapter, and the column in which a row has its own rubric.

    source: the engine of a configuration is made once in a process.
    owner: the trainer, for warnings. Its checkpoints cannot contain what a rule learns, so a rule that learns causes a
        warning, and attributes are controlled only if the configuration names them.
    process: added to the name of the records file, if several processes write records.
    passes_step: False if the trainer does not pass its step: controls that start at a later step are then refused.
    """
    rubric_column = "rubric"
    if isinstance(source, RewardEngine):
        engine = source
    else:
        path = str(source or os.environ.get(VARIABLE) or "")
        engine, rubric_column = _load_engine_once(path, process)
    engine.leave_out_default_control()
    warn_if_stateful(engine, owner)
    if not passes_step:
        refuse_late_controls(engine, owner)
    return engine, rubric_column


@lru_cache(maxsize=8)
def _load_engine_once(path: str, process: str) -> tuple[RewardEngine, str]:
    """Make the engine of a configuration. The path of RUBRANK_CONFIG is given too, so that the cache knows it."""
    is_from_variable = path == os.environ.get(VARIABLE)
    # Without an argument, `load_config` reads the variable itself, and its errors name it.
    config, folder = load_config(None if is_from_variable else path)
    return config.engine(folder, process=process), config.rubric_column


def refuse_late_controls(engine: RewardEngine, owner: str) -> None:
    """Raise for controls that start at a later step, if the trainer does not pass its step."""
    for control in engine.controls:
        if control.start > 0:
            allowed = "controlled from step 0 on, because the trainer does not pass its step"
            raise InvalidInput(
                owner, "attributes", allowed, repr(control.name), "Leave `start` out."
            )


def refuse_memory(engine: RewardEngine, owner: str, reason: str, remedy: str = "") -> None:
    """Raise InvalidInput for a rule that learns from step to step. reason: why this trainer cannot have one."""
    if engine.remembers:
        raise InvalidInput(
            owner,
            "rule",
            allowed=f"one without a memory: {reason}",
            got=repr(engine.rule.name),
            remedy=remedy,
        )


def warn_if_stateful(engine: RewardEngine, owner: str) -> None:
    """Warn that the trainer's checkpoints do not contain what the rule remembers."""
    if engine.remembers:
        message = f"{owner}: no checkpoint contains the memory of {engine.rule.name!r}, and each process has its own"
        warnings.warn(message, RuntimeWarning, stacklevel=3)


def _find_file(folder: Path, value: Any) -> Any:
    """The path of a file beside the configuration; names of presets and data are returned unchanged."""
    return str(folder / value) if isinstance(value, str) and (folder / value).is_file() else value


def main(arguments: list[str]) -> int:
    """Check a configuration: prints one line, and returns 1 if it is wrong."""
    try:
        config, folder = load_config(arguments[0] if arguments else None)
        engine = config.engine(folder)
        engine.leave_out_default_control()
    except RubrankError as error:
        print(error, file=sys.stderr)
        return 1
    criteria = "only the queries' own criteria"
    if engine.rubric is not None:
        criteria = f"{len(engine.rubric.criteria)} criteria"
    attributes = f"{len(engine.controls)} controlled attributes"
    print(f"valid: rule {engine.rule.name!r}, {criteria}, {attributes}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
