"""How each language is compiled and run, and whether this machine can."""

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
    """One language: names of its fences, file, compiler and program; `{tool}` stands for the tool's path."""

    fences: tuple[str, ...]
    file: str
    tool: str
    compile: tuple[str, ...] = ()
    run: tuple[str, ...] = ("./program",)
    binary: str = ""
    smallest: str = ""
    """A program that compiles, where there is a compiler."""
    reserves: bool = False
    """Does its runtime reserve far more address space than it uses? Then memory is limited by its own flag."""


RECIPES: dict[str, Recipe] = {
    "python": Recipe(("python", "py", "python3", ""), "main.py", "python", (), ("{tool}", "-I", "main.py")),
    "cpp": Recipe(
        ("cpp", "c++", "cc", "cxx", "c"),
        "main.cpp",
        "g++",
        ("{tool}", "-O2", "-std=c++17", "-w", "-o", "program", "main.cpp"),
        binary="program",
        smallest="int main() {}",
    ),
    "java": Recipe(
        ("java",),
        "Main.java",
        "javac",
        ("{tool}", "-J-Xmx256m", "-J-XX:+UseSerialGC", "Main.java"),
        ("{home}/java", "-Xmx{memory}m", "-Xss64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", ".", "Main"),
        smallest="class Main { public static void main(String[] a) {} }",
        reserves=True,
    ),
    "javascript": Recipe(
        ("javascript", "js", "node", "mjs"),
        "main.js",
        "node",
        (),
        ("{tool}", "--max-old-space-size={memory}", "main.js"),
        reserves=True,
    ),
    "go": Recipe(
        ("go", "golang"),
        "main.go",
        "go",
        ("{tool}", "build", "-o", "program", "main.go"),
        binary="program",
        smallest="package main\nfunc main() {}",
        reserves=True,
    ),
    "rust": Recipe(
        ("rust", "rs"),
        "main.rs",
        "rustc",
        ("{tool}", "-O", "-o", "program", "main.rs"),
        binary="program",
        smallest="fn main() {}",
        reserves=True,
    ),
    "bash": Recipe(("bash", "sh", "shell"), "main.sh", "bash", (), ("{tool}", "main.sh")),
}


@cache
def find_tool(language: str) -> tuple[str, tuple[str, ...]] | None:
    """The compiler or interpreter, and folders that must stay readable; None if the machine has none."""
    name = RECIPES[language].tool
    if name == "python":
        return sys.executable, ()
    found = shutil.which(name, path="/usr/local/bin:/usr/bin:/bin") or shutil.which(name)
    if found is None:
        return None
    if language == "rust":  # rustup's stand-in looks for its settings in a home that is hidden
        asked = subprocess.run([found, "--print", "sysroot"], capture_output=True, text=True, check=False)
        root = asked.stdout.strip()
        real = f"{root}/bin/rustc"
        return (real, (root,)) if os.path.exists(real) else None
    real = os.path.realpath(found)
    return found if language == "cpp" else real, (os.path.dirname(os.path.dirname(real)),)
