"""The plug-in that verl loads with every `import verl`; it does nothing until verl's v1 trainer is imported.

    import verl                       registers a finder; imports neither torch nor anything else of rubrank
    import verl.trainer.ppo.v1        imports `trainer.py`, which registers the modes `rubrank_…`

verl imports all plug-ins of the entry point `verl.plugins` in every process, rollout workers included. If the modes
cannot be registered, a warning says why, because verl reports nothing.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from importlib.abc import Loader, MetaPathFinder
from typing import Any

VERL_TRAINER = "verl.trainer.ppo.v1"
_OUR_TRAINER = "rubrank.training.frameworks.verl.trainer"


class _RegisteringLoader(Loader):
    """Loads a module with its own loader, then imports our trainer."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__loader__ = self._loader  # leave no trace in the module
        module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _register_modes()


class _TrainerFinder(MetaPathFinder):
    """Waits for the import of verl's trainer."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return verl's own spec for its trainer, with a loader that registers our modes after it."""
        if name != VERL_TRAINER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _RegisteringLoader(spec.loader)
        return spec


def _register_modes() -> None:
    """Import our trainer, which registers its modes; warn if that is not possible."""
    try:
        importlib.import_module(_OUR_TRAINER)
    except ImportError as error:
        warnings.warn(
            f"rubrank's modes of verl's trainer are not available: {error}",
            RuntimeWarning,
            stacklevel=2,
        )


def install() -> None:
    """Register the modes now if verl's trainer is loaded, else as soon as it is."""
    if VERL_TRAINER in sys.modules:
        _register_modes()
    elif not any(isinstance(finder, _TrainerFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _TrainerFinder())


install()
