"""What verl loads with every `import verl`: next to nothing, until its v1 trainer is imported.

    import verl                       rubrank registers a finder, and imports neither torch nor anything of its own
    import verl.trainer.ppo.v1        now `frameworks.verl.trainer` is imported, and registers its modes

verl imports all plug-ins of the entry point `verl.plugins` in every process, rollout workers included, whatever is
trained. If the modes cannot be registered, a warning says why: verl itself would keep it to itself.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from importlib.abc import Loader, MetaPathFinder
from typing import Any

TARGET = "verl.trainer.ppo.v1"
_TRAINER = "rubrank.training.frameworks.verl.trainer"


class _Then(Loader):
    """A loader that imports our trainer once its own module is there."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = module.__loader__ = self._loader  # as it was before
        self._loader.exec_module(module)
        _register()


class _Finder(MetaPathFinder):
    """Waits for one module."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != TARGET:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Then(spec.loader)
        return spec


def _register() -> None:
    try:
        importlib.import_module(_TRAINER)
    except ImportError as error:
        warnings.warn(f"rubrank's modes of verl's trainer are not available: {error}", RuntimeWarning, stacklevel=2)


def install() -> None:
    """Register the modes now if verl's trainer is there, else when it comes."""
    if TARGET in sys.modules:
        _register()
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


install()
