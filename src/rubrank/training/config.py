"""An engine from a file, for trainers that are told nothing but the path of a function or of a Python file.

    reward.yaml
      rubric: rubric.yaml              # or a preset, or the criteria themselves; a query's own rubric is added
      rule: rlvr2+
      judges: judges.yaml              # or the judges themselves
      attributes: [markdown, {name: reasoning_length, attenuate: 0.5, start: 700}]
      records: records.jsonl

    RUBRANK_CONFIG=/abs/reward.yaml                        every process of the trainer finds it there
    python -m rubrank.training.config reward.yaml      what is wrong with it, before a model is loaded

The keys are those of `RewardEngine`, and two more: `rubric_column`, where a row has its own rubric, and `imports`, the
modules that register verifiers of your own. Paths are relative to the file, since workers of a cluster run elsewhere.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from rubrank._files import require_file
from rubrank._plain import validated
from rubrank.errors import InvalidInput, RubrankError
from rubrank.options import EngineOptions, option
from rubrank.training.engine import RewardEngine

VARIABLE = "RUBRANK_CONFIG"
_PAGE = "docs/frameworks.md"
_ABSOLUTE = "Give an absolute path."


class RewardConfig(EngineOptions):
    """What a configuration file holds."""

    rubric_column: str = option("rubric", "Column in which a row has its own rubric.")
    imports: tuple[str, ...] = option((), "Modules that register verifiers, rules or attributes of your own.")

    def engine(self, folder: Path = Path(), *, apart: str = "") -> RewardEngine:
        """The engine. apart: put into the name of the records, where several processes write some."""
        for module in self.imports:
            _import(module)
        records = None if self.records is None else folder / self.records
        if records is not None and apart:
            name, dot, rest = records.name.partition(".")
            records = records.with_name(f"{name}-{apart}{dot}{rest}")
        options = {name: getattr(self, name) for name in EngineOptions.model_fields if name in self.model_fields_set}
        options["rubric"] = _beside(folder, self.rubric)
        options["judges"] = _judges(folder, self.judges)
        options["records"] = records
        if self.cache is not None:
            options["cache"] = folder / self.cache
        return RewardEngine(**options)


def load_config(source: str | Path | None = None) -> tuple[RewardConfig, Path]:
    """A configuration and the folder it lies in. None: the file that RUBRANK_CONFIG names."""
    from rubrank.rubrics.files import read_settings

    path = Path(source or os.environ.get(VARIABLE) or "")
    if not path.name:
        remedy = f"Such as {VARIABLE}=/abs/reward.yaml; on a cluster, in the environment of all workers. See {_PAGE}."
        raise InvalidInput(VARIABLE, "value", "the path of a configuration", "none", remedy)
    data = read_settings(path if source else require_file(path, owner=VARIABLE, what="value", remedy=_ABSOLUTE))
    if not isinstance(data, Mapping):
        raise InvalidInput(
            str(path), "file", "keys and values", "nothing" if data is None else type(data).__name__, f"See {_PAGE}."
        )
    return validated(RewardConfig, data, str(path), _PAGE), path.resolve().parent


def load_engine(source: RewardEngine | str | Path | None, owner: str, *, process: str = "") -> tuple[RewardEngine, str]:
    """An engine, and the column in which a row has its own rubric.

    source: an engine, or the path of a configuration; None: RUBRANK_CONFIG. The engine of a configuration is made once
        in a process.
    owner: the trainer, for warnings. Its checkpoints cannot contain the memory of a rule, which is warned of.
    process: put into the name of the records, if several processes write some.
    """
    if isinstance(source, RewardEngine):
        warn_if_stateful(source, owner)
        return source, "rubric"
    return _load_engine_once(str(source or os.environ.get(VARIABLE) or ""), owner, process)


@lru_cache(maxsize=8)
def _load_engine_once(source: str, owner: str, process: str) -> tuple[RewardEngine, str]:
    config, folder = load_config(source)
    engine = config.engine(folder, apart=process)
    warn_if_stateful(engine, owner)
    return engine, config.rubric_column


def refuse_late_controls(engine: RewardEngine, owner: str) -> None:
    """Raise for controls that start at a later step, if the trainer does not pass its step."""
    for control in engine.controls:
        if control.start > 0:
            allowed = "controlled from step 0 on, because the trainer does not pass its step"
            raise InvalidInput(owner, "attributes", allowed, repr(control.name), "Leave `start` out.")


def warn_if_stateful(engine: RewardEngine, owner: str) -> None:
    """Warn that the trainer's checkpoints do not contain what the rule remembers."""
    if engine.remembers:
        message = f"{owner}: no checkpoint contains the memory of {engine.rule.name!r}, and each process has its own"
        warnings.warn(message, RuntimeWarning, stacklevel=3)


def _beside(folder: Path, value: Any) -> Any:
    """A file beside the configuration; presets and data as they are."""
    return str(folder / value) if isinstance(value, str) and (folder / value).is_file() else value


def _judges(folder: Path, given: Any) -> Any:
    """A file beside the configuration, or judges that stand in it; their templates are beside it, too."""
    from rubrank.judges.judge import load_judges

    return load_judges(given, folder=folder) if isinstance(given, Mapping) else _beside(folder, given)


def _import(module: str) -> None:
    try:
        importlib.import_module(module)
    except ImportError as error:
        remedy = "Put its folder on PYTHONPATH, in every process."
        raise InvalidInput("imports", "module", "one that can be imported", str(error), remedy) from None


def main(arguments: list[str]) -> int:
    """Check a configuration: one line, and 1 if it is wrong."""
    try:
        config, folder = load_config(arguments[0] if arguments else None)
        engine = config.engine(folder)
    except RubrankError as error:
        print(error, file=sys.stderr)
        return 1
    asked = "only what queries bring" if engine.rubric is None else f"{len(engine.rubric.criteria)} criteria"
    print(f"right: rule {engine.rule.name!r}, {asked}, {len(engine.controls)} controlled attributes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
