"""Rows with rubrics → the two Parquet files that verl reads.

    python make.py queries.jsonl out/verl --held-out 64

Every row gets what verl's datasets have: `prompt` (messages), `data_source`, `ability`, `reward_model`, and
`extra_info` with `split`, `index`, and the rubric as JSON text, since verl makes arrays of what rows hold. A row is
read by the usual names of its columns, as everywhere (docs/data.md); all its other columns go into `extra_info`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import polars as pl

PROMPTS = ("prompt", "question", "query", "instruction", "input")
RUBRICS = ("rubric", "rubrics", "criteria")


def verl_row(row: dict[str, Any], index: int, source: str, split: str) -> dict[str, Any]:
    """One row as verl's datasets have it."""
    prompt = next((row[name] for name in PROMPTS if row.get(name)), None)
    if prompt is None:
        raise SystemExit(f"{source}: row {index + 1} has no prompt among {', '.join(map(str, row))}")
    rubric = next((row[name] for name in RUBRICS if row.get(name)), None)
    if rubric is None and row.get("instruction_id_list"):
        rubric = {name: row.get(name) for name in ("instruction_id_list", "kwargs")}
    rest = {name: value for name, value in row.items() if name not in (*PROMPTS, *RUBRICS)}
    about = {
        "split": split,
        "index": index,
        "rubric": None if rubric is None else _text(rubric),
        "row": _text(rest),
    }
    return {
        "prompt": [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt,
        "data_source": str(row.get("data_source") or source),
        "ability": str(row.get("ability") or "rubric"),
        "reward_model": {"style": "rubric", "ground_truth": _text(row.get("answer") or "")},
        "extra_info": about,
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def main() -> None:
    """Read, split, write."""
    parser = argparse.ArgumentParser(description="Rows with rubrics as verl's train.parquet and val.parquet")
    parser.add_argument("rows", type=Path, help="a .jsonl file")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--held-out", type=int, default=64, help="the last so many rows are never trained on")
    given = parser.parse_args()
    rows = [json.loads(line) for line in given.rows.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not 0 < given.held_out < len(rows):
        raise SystemExit(f"--held-out must be from 1 to {len(rows) - 1}, got {given.held_out}")
    given.folder.mkdir(parents=True, exist_ok=True)
    cut = len(rows) - given.held_out
    for split, first, part in (("train", 0, rows[:cut]), ("val", cut, rows[cut:])):
        made = [verl_row(row, first + i, given.rows.stem, split) for i, row in enumerate(part)]
        pl.DataFrame(made).write_parquet(given.folder / f"{split}.parquet")
        print(f"{given.folder / f'{split}.parquet'}: {len(made)} rows")


if __name__ == "__main__":
    main()
