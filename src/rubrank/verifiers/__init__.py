"""The criteria that a program decides. One family a file; `load()` imports them all, which registers them."""

from __future__ import annotations

import importlib

FAMILIES: tuple[str, ...] = (
    # IFEval and its language-specific relatives
    "ifeval_words",
    "ifeval_length",
    "ifeval_format",
    "ifeval_whole",
    "m_ifeval_es",
    "m_ifeval_fr",
    "m_ifeval_ja",
    "multi_if",
    # IFBench and the IF-RLVR training constraints
    "ifbench_count",
    "ifbench_ratio",
    "ifbench_words",
    "ifbench_sentence",
    "ifbench_format",
    "ifbench_nesting",
    "ifbench_custom",
    "ifbench_csv",
    "if_rlvr",
    "if_rlvr_copy",
    "benchmark_items",
    # constraints as data, and items composed of other criteria
    "collie",
    "complex_bench",
    "live_bench",
    # the criteria that the paper names
    "paper_format",
    "paper_whole",
    "paper_structure",
    "paper_writing",
    "paper_length",
    "paper_language",
    "paper_presence",
    "paper_penalty",
    "gates",
    "gates_text",
    "ground_truth",
    # agents
    "agentic_tools",
    "agentic_state",
    "agentic_code",
)


def load() -> None:
    """Import every family."""
    for family in FAMILIES:
        importlib.import_module(f"rubrank.verifiers.{family}")
