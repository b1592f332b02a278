"""Command lines that carry our own programs into the sandbox, where rubrank cannot be imported.

sandbox.run(make_command("rubrank.verifiers.code.runner"), trusted=True, …)
"""

from __future__ import annotations

import binascii
import marshal
import zlib
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[4]
_SHARED = "rubrank.verifiers.shared.sandboxes.children"  # every program imports it


@cache
def make_command(*modules: str) -> list[str]:
    """The command that loads these modules, in their order and under their own names, and runs `main` of the last one.

    A module must come after those that it imports. The modules are compiled here, once: the sandbox runs the same
    interpreter, so it can load the bytecode.
    """
    bytecodes = []
    for name in (_SHARED, *modules):
        source = _ROOT.joinpath(*name.split(".")).with_suffix(".py").read_text("utf-8")
        bytecodes.append((name, compile(source, name, "exec")))
    packed = binascii.b2a_base64(zlib.compress(marshal.dumps(bytecodes)), newline=False).decode()
    program = (
        "import binascii, marshal, sys, types, zlib\n"
        f"for name, code in marshal.loads(zlib.decompress(binascii.a2b_base64('{packed}'))):\n"
        "    module = sys.modules[name] = types.ModuleType(name)\n"
        "    exec(code, module.__dict__)\n"
        f"sys.modules['{modules[-1]}'].main()\n"
    )
    return ["python", "-I", "-B", "-c", program]
