"""`python -I -S start.py` loads this folder's modules under their own names, without importing rubrank, and runs.

Loaded through the machinery of imports, so that their bytecode is cached: the launcher starts in some 30 ms.
"""

import sys
import types
from importlib.machinery import SourceFileLoader

_PACKAGE = "rubrank.verifiers.shared.inside"

if __name__ == "__main__":
    folder = __file__.rpartition("/")[0]
    package = sys.modules[_PACKAGE] = types.ModuleType(_PACKAGE)
    for name in ("kernel", "filters", "landlock", "namespaces", "launcher"):
        module = types.ModuleType(f"{_PACKAGE}.{name}")
        sys.modules[module.__name__] = module
        SourceFileLoader(module.__name__, f"{folder}/{name}.py").exec_module(module)
        setattr(package, name, module)
    sys.modules[f"{_PACKAGE}.launcher"].main()
