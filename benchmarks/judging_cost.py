"""What a training step costs in calls and tokens, for every kind of judge: 128 queries × 8 responses.

    python benchmarks/judging_cost.py                  1, 8 and 30 criteria; about half a minute

Prompts are made as in a real run and counted instead of sent. A query has 60 words, a response 300. Tokens are the
estimate of `rubrank judge show`. docs/judging_cost.md shows the table.
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from rubrank.grading.preview import estimate

QUERIES = 128
G = 8
SAMPLE = 8  # queries that are really counted: all are alike, but for their numbers
SIZES = (1, 8, 30)
KINDS: tuple[tuple[str, dict[str, object]], ...] = (
    ("batched", {}),
    ("decision", {}),
    ("absolute", {}),
    ("listwise", {}),
    ("pairwise", {"pairs": 8}),
    ("pairwise", {}),
)
TEXT = "the river carries silt from the hills to a wide delta where herons wait for the tide"
WORDS = TEXT.split()


def text(words: int, seed: int) -> str:
    return " ".join(f"{WORDS[(i * (seed + 3) + seed) % len(WORDS)]}" for i in range(words)) + f" {seed}."


def rollouts() -> list[dict[str, object]]:
    return [
        {"id": f"q{q}", "prompt": text(60, q), "responses": [text(300, 100 * q + i) for i in range(G)]}
        for q in range(SAMPLE)
    ]


def rubric(K: int) -> list[dict[str, object]]:
    return [
        {"name": f"c{k}", "question": f"Does the answer mention {text(6, k)}", "domain": "binary"} for k in range(K)
    ]


def judge(kind: str, options: dict[str, object]) -> dict[str, object]:
    endpoint = {"base_url": "http://127.0.0.1:1/v1", "model": "none"}
    return {"judges": [{"name": "main", "kind": kind, "endpoints": [endpoint], **options}]}


def main() -> None:
    console = Console()
    table = Table(title=f"{QUERIES} queries × {G} responses: one step", box=None, title_justify="left")
    for heading in ("kind", "criteria", "calls", "tokens in, millions", "tokens a call"):
        table.add_column(heading, justify="left" if heading == "kind" else "right")
    groups = rollouts()
    for kind, options in KINDS:
        name = kind + "".join(f", {key}: {value}" for key, value in options.items())
        for K in SIZES:
            judge_estimate = estimate(groups, rubric(K), judge(kind, options)).judges[0]
            calls, tokens = (QUERIES // SAMPLE * n for n in (judge_estimate.calls, judge_estimate.input_tokens))
            table.add_row(name, str(K), f"{calls:,}", f"{tokens / 1e6:.2f}", f"{tokens / calls:,.0f}")
            name = ""
    console.print(table)


if __name__ == "__main__":
    main()
