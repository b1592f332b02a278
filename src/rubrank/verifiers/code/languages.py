"""How each language is compiled and run, and where this machine has the tool for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

Language: TypeAlias = Literal["python", "cpp", "java", "javascript", "go", "rust", "bash"]


@dataclass(frozen=True)
class Recipe:
    """How programs of one language are compiled and run.

    In the commands, `{tool}` stands for the tool's path, `{home}` for its folder, `{memory}` for the limit in MB.
    """

    fences: tuple[str, ...]
    """Names of the language after the backticks of a code block."""
    file: str
    """The name under which the source is saved."""
    tool: str
    """The compiler or interpreter."""
    compile: tuple[str, ...] = ()
    """The command that compiles the source; empty for interpreted languages."""
    run: tuple[str, ...] = ("./program",)
    binary: str = ""
    """The executable that the compiler writes, if it writes one."""
    smallest: str = ""
    """The smallest program, compiled once to find out whether the compiler works. Empty for interpreted languages."""
    reserves: bool = False
    """Does the runtime reserve far more address space than it uses?

    Then the sandbox sets no limit on address space. Java and JavaScript have a flag in `run` instead.
    """


RECIPES: dict[str, Recipe] = {
    "python": Recipe(
        fences=("python", "py", "python3", ""),
        file="main.py",
        tool="python",
        run=("{tool}", "-I", "main.py"),
    ),
    "cpp": Recipe(
        fences=("cpp", "c++", "cc", "cxx", "c"),
        file="main.cpp",
        tool="g++",
        compile=("{tool}", "-O2", "-std=c++17", "-w", "-o", "program", "main.cpp"),
        binary="program",
        smallest="int main() {}",
    ),
    "java": Recipe(
        fences=("java",),
        file="Main.java",
        tool="javac",
        compile=("{tool}", "-J-Xmx256m", "-J-XX:+UseSerialGC", "Main.java"),
        run=(
            "{home}/java",
            "-Xmx{memory}m",
            "-Xss64m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            ".",
            "Main",
        ),
        smallest="class Main { public static void main(String[] a) {} }",
        reserves=True,
    ),
    "javascript": Recipe(
        fences=("javascript", "js", "node", "mjs"),
        file="main.js",
        tool="node",
        run=("{tool}", "--max-old-space-size={memory}", "main.js"),
        reserves=True,
    ),
    "go": Recipe(
        fences=("go", "golang"),
        file="main.go",
        tool="go",
        compile=("{tool}", "build", "-o", "program", "main.go"),
        binary="program",
        smallest="package main\nfunc main() {}",
        reserves=True,
    ),
    "rust": Recipe(
        fences=("rust", "rs"),
        file="main.rs",
        tool="rustc",
        compile=("{tool}", "-O", "-o", "program", "main.rs"),
        binary="program",
        smallest="fn main() {}",
        reserves=True,
    ),
    "bash": Recipe(
        fences=("bash", "sh", "shell"),
        file="main.sh",
        tool="bash",
        run=("{tool}", "main.sh"),
    ),
}


@cache
def find_tool(language: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the path of the compiler or interpreter and the folders that it must read; None if it is absent."""
    name = RECIPES[language].tool
    if name == "python":
        return sys.executable, ()
    path = shutil.which(name, path="/usr/local/bin:/usr/bin:/bin") or shutil.which(name)
    if path is None:
        return None
    if language == "rust":
        # rustup's `rustc` only starts the real one, and reads its settings in a home, which the sandbox hides.
        sysroot = subprocess.run(
            [path, "--print", "sysroot"], capture_output=True, text=True, check=False
        )
        root = sysroot.stdout.strip()
        compiler = f"{root}/bin/rustc"
        return (compiler, (root,)) if os.path.exists(compiler) else None
    real_path = os.path.realpath(path)
    folders = (os.path.dirname(os.path.dirname(real_path)),)
    if language == "cpp":
        return path, folders
    return real_path, folders
