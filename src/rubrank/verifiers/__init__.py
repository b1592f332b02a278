"""Criteria that a program decides. `load()` imports the modules in `FAMILIES`, which registers their verifiers."""

from __future__ import annotations

import importlib

FAMILIES: tuple[str, ...] = (
    # instructions of public benchmarks, and whole items of them
    "instructions.ifeval_words",
    "instructions.ifeval_format",
    "instructions.m_ifeval",
    "instructions.ifbench_words",
    "instructions.ifbench_format",
    "instructions.ifbench_custom",
    "instructions.if_rlvr",
    "instruction_items",
    # constraints as data, and items composed of other criteria
    "collie",
    "complex_bench",
    # criteria that the paper names, with Regex, NoPersonalData and ValidMarkup beside them
    "paper.format",
    "paper.structure",
    "paper.wordplay",
    "paper.length",
    "paper.presence",
    "paper.penalty",
    "gates.empty",
    "gates.truncation",
    "gates.repetition",
    "gates.legibility",
    "gates.think_leak",
    "truth.ground_truth",
    # answers that are data, compared texts, how a reply is given
    "data",
    "sql",
    "similarity",
    "overlap",
    "truth.measurements",
    "reply",
    # agents
    "agentic.tools",
    "agentic.code",
    "code.programs",
)


def load() -> None:
    """Import every family."""
    for family in FAMILIES:
        importlib.import_module(f"rubrank.verifiers.{family}")
