"""Our own programs for the sandbox, each with the modules that it imports.

sandbox.run(command("rubrank.verifiers.code.runner"), trusted=True, …)
"""

from __future__ import annotations

import binascii
import marshal
import zlib
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[4]
_SHARED = "rubrank.verifiers.shared.sandboxes.children"


@cache
def command(*modules: str) -> list[str]:
    """Make these modules, in their order and under their own names, then run `main` of the last one.

    Compiled here, once: the interpreter over there is the same.
    """
    codes = [(name, compile(_source(name), name, "exec")) for name in (_SHARED, *modules)]
    packed = binascii.b2a_base64(zlib.compress(marshal.dumps(codes)), newline=False).decode()
    program = (
        "import binascii, marshal, sys, types, zlib\n"
        f"for name, code in marshal.loads(zlib.decompress(binascii.a2b_base64('{packed}'))):\n"
        "    module = sys.modules[name] = types.ModuleType(name)\n"
        "    exec(code, module.__dict__)\n"
        f"sys.modules['{modules[-1]}'].main()\n"
    )
    return ["python", "-I", "-B", "-c", program]


def _source(module: str) -> str:
    return _ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text("utf-8")
