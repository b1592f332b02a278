"""Entry point of the launcher: `python -I -S start.py`.

Loads the modules of this folder under their full names, without importing rubrank, which would take seconds. The import
machinery's loader caches their bytecode, so that the launcher starts in about 30 ms.
"""

import sys
import types
from importlib.machinery import SourceFileLoader

_PACKAGE = "rubrank.verifiers.shared.inside"

if __name__ == "__main__":
    folder = __file__.rpartition("/")[0]
    package = types.ModuleType(_PACKAGE)
    sys.modules[_PACKAGE] = package
    # A module comes after those that it imports.
    for name in ("kernel", "filters", "landlock", "namespaces", "launcher"):
        module = types.ModuleType(f"{_PACKAGE}.{name}")
        sys.modules[module.__name__] = module
        SourceFileLoader(module.__name__, f"{folder}/{name}.py").exec_module(module)
        setattr(package, name, module)
    sys.modules[f"{_PACKAGE}.launcher"].main()
