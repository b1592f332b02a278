"""`rubrank report`: write the viewer's page with its data inside, as one HTML file.

    summary = write_report("records.jsonl", "report.html")
    summary.groups, summary.bytes, summary.text_limit        10000, 21_300_000, 4000

The file needs no network and no server; it opens from disk. Records are read one by one; the compressed groups stay in
memory until the file is written.

    <style> … </style>  skeleton  <script type="application/gzip" id="data-…">block</script> …  <script> code </script>

A block is gzip in base64, whose letters cannot end a script or begin a tag, so no response can inject markup. The
page's content policy allows its own script and style by their hashes, and inline images: no other script, no network.

Groups are packed 64 to a block, with each text cut to `text_limit` characters. If these blocks take more than
`budget_mb`, all texts are cut to a lower limit, until they fit; numbers, reasons and explanations are never cut.

Scored runs of `eval` become the same page with its Benchmarks alone (`write_evaluation_report`); drafted rubrics become
another page (`write_draft_report`).
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from rubrank._files import atomic_write
from rubrank.drafting.lint import lint_rubric
from rubrank.drafting.page import OFFLINE_SCRIPT, make_offline_page, read_drafts, read_style
from rubrank.errors import InvalidInput, only_our_errors
from rubrank.records.files import name_runs, read_records
from rubrank.records.record import GroupRecord
from rubrank.rubrics.rubric import load_rubric
from rubrank.viewer import BUDGET_MB, TEXT_LIMIT
from rubrank.viewer.figures import GroupArrays, measure_responses, to_plain_numbers
from rubrank.viewer.group_data import cut_texts, list_text_lengths, make_group_data
from rubrank.viewer.index import Index, make_curves
from rubrank.viewer.summary import RunSummary

SCRIPTS = (
    "numbers.js",
    "dom.js",
    "save.js",
    "charts.js",
    "tables.js",
    "texts.js",
    "diff.js",
    "filters.js",
    "address.js",
    "recompute.js",
    "data.js",
    "rollout.js",
    "edit.js",
    "group.js",
    "list.js",
    "summary.js",
    "steps.js",
    "compare.js",
    "evaluation.js",
    "groups.js",
    "keys.js",
    "app.js",
)
"""The page's modules. In a report all share one scope, so a module comes after those that it imports, and no two have a
top-level name in common (a test checks both)."""
# The page unpacks one block to open a group: small blocks open quickly, large ones compress better.
_GROUPS_PER_BLOCK = 64
# Level 9 takes twice the time for blocks that are 4% smaller (measured on the records of `rubrank demo`).
_GZIP_LEVEL = 5
# base64 writes three bytes as four characters.
_BASE64_GROWTH = 4 / 3


@dataclass(frozen=True)
class ReportSummary:
    """What went into a report."""

    path: Path
    groups: int
    rollouts: int
    criteria: int
    steps: int
    bytes: int
    """Size of the file."""
    text_limit: int
    """Characters that each text was cut to: the limit asked for, or what the budget left of it."""
    cut_texts: int
    """Responses, reasoning and messages that were cut."""


@only_our_errors
def write_report(
    records: Iterable[GroupRecord] | str | Path,
    output: str | Path,
    *,
    title: str | None = None,
    text_limit: int = TEXT_LIMIT,
    budget_mb: float = BUDGET_MB,
    measure: bool = True,
    evaluation: Mapping[str, Any] | None = None,
    rubric: Any = None,
) -> ReportSummary:
    """Write the report of records, or of a file of them, to one HTML file.

    text_limit: characters kept of each response, reasoning and message; what is cut is marked.
    budget_mb: size that the groups may take in the file; beyond it, texts are cut shorter.
    measure: count words and Markdown of the responses, if the records hold them.
    evaluation: a capability table, as `rubrank.evaluation.table.report_data` makes it from scored runs.
    rubric: the rubric of the run; what `rubrank lint` finds in its words is listed with the other findings.
    """
    if text_limit < 0:
        remedy = "0 leaves texts out."
        raise InvalidInput("write_report", "text_limit", "at least 0", str(text_limit), remedy)
    if not budget_mb > 0.0:
        remedy = "50 opens quickly everywhere."
        raise InvalidInput("write_report", "budget_mb", "more than 0", str(budget_mb), remedy)
    rubric_findings = [] if rubric is None else lint_rubric(load_rubric(rubric))
    name = ""
    groups: Iterable[GroupRecord]
    if isinstance(records, str | Path):
        name = name_runs([Path(records)])[0]
        groups = read_records(records)
    else:
        groups = records

    summary = RunSummary()
    index = Index()
    packer = Packer(text_limit, budget_mb * 1e6)
    for record in groups:
        measured = measure_responses(record) if measure else {}
        summary.add(GroupArrays(record, measured))
        index.add_record(record, measured)
        packer.add(record)
    if not len(index):
        remedy = "Write some with write_records."
        raise InvalidInput("write_report", "records", "at least one group", "none", remedy)
    packer.finish()

    figures = summary.summarize(rubric_findings)
    overview = figures["overview"]
    heading = title or (f"rubrank report: {name}" if name else "rubrank report")
    texts = {"limit": packer.text_limit, "limit_asked": text_limit, "cut": packer.count_cut()}
    # As the server describes a run: here everything is read, and nothing will be added.
    run = {
        "name": name or heading,
        "groups": len(index),
        "ready": len(index),
        "version": 0,
        "epoch": 0,
        **index.describe(),
    }
    blocks = {
        "state": _describe_page(heading, [run], evaluation),
        "index": index.list_rows(),
        "scores": {name: index.list_scores(name) for name in run["criteria"]},
        "curves": to_plain_numbers({"name": run["name"], **make_curves(index)}),
        "summary": {**figures, "texts": texts},
    }
    if evaluation:
        blocks["evaluation"] = to_plain_numbers(evaluation)
    size = _write_page(Path(output), heading, blocks, packer.blocks)
    return ReportSummary(
        path=Path(output),
        groups=overview["groups"],
        rollouts=overview["rollouts"],
        criteria=overview["criteria"],
        steps=overview["steps"],
        bytes=size,
        text_limit=packer.text_limit,
        cut_texts=texts["cut"],
    )


@only_our_errors
def write_evaluation_report(
    evaluation: Mapping[str, Any], output: str | Path, *, title: str
) -> int:
    """Write the Benchmarks of scored runs, which have no groups, to one HTML file; returns its size in bytes.

    evaluation: what `rubrank.evaluation.table.report_data` makes of the runs.
    """
    blocks = {
        "state": _describe_page(title, [], evaluation),
        "evaluation": to_plain_numbers(evaluation),
    }
    return _write_page(Path(output), title, blocks, group_blocks=())


@only_our_errors
def write_draft_report(source: str | Path, output: str | Path, *, title: str) -> tuple[int, int]:
    """Write all rubrics of a file of `rubrank draft` to one HTML file; returns how many, and its size in bytes."""
    drafts = read_drafts(Path(source))
    page = make_offline_page(drafts, title, _make_policy(OFFLINE_SCRIPT, read_style()))
    with atomic_write(Path(output)) as partial:
        # A lone surrogate, which UTF-8 cannot hold, becomes a question mark.
        partial.write_bytes(page.encode("utf-8", "replace"))
    return len(drafts), Path(output).stat().st_size


def _describe_page(
    title: str, runs: Sequence[Mapping[str, Any]], evaluation: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return what the server answers at /api/state, and how the groups are packed."""
    return {
        "title": title,
        "runs": runs,
        "rules": [],
        "has_evaluation": bool(evaluation and evaluation["rows"]),
        "embedded": {"groups_per_block": _GROUPS_PER_BLOCK},
    }


class Packer:
    """Packs groups into compressed blocks, and cuts texts shorter if the blocks exceed the budget."""

    def __init__(self, text_limit: int, budget: float) -> None:
        """text_limit: characters kept of each text. budget: bytes that all blocks may take in the file."""
        self.text_limit = text_limit
        """Lowered if the blocks exceed the budget."""
        self.blocks: list[bytes] = []
        self._budget = budget
        self._waiting: list[dict[str, Any]] = []
        """Groups of the block that is not full yet."""
        self._lengths: list[int] = []
        """Characters of each text of all groups, before any cut."""
        self._size = 0.0
        """Bytes that the blocks take in the file, where they are base64."""

    def add(self, record: GroupRecord) -> None:
        """Add a group."""
        group = make_group_data(record, self.text_limit)
        self._lengths.extend(list_text_lengths(group))
        self._waiting.append(group)
        if len(self._waiting) == _GROUPS_PER_BLOCK:
            self._close_block()
            # All blocks stay in memory, so texts are not cut at the end only. But every cut packs all blocks again, so
            # it waits until they take twice the budget, instead of cutting after each block.
            if self._size > 2.0 * self._budget:
                self._fit_budget()

    def finish(self) -> None:
        """Close the last block and fit the budget."""
        if self._waiting:
            self._close_block()
        self._fit_budget()

    def count_cut(self) -> int:
        """Count the texts that are longer than the limit."""
        return sum(length > self.text_limit for length in self._lengths)

    def _close_block(self) -> None:
        self._add_block(self._waiting)
        self._waiting = []

    def _add_block(self, groups: Sequence[dict[str, Any]]) -> None:
        block = pack(groups)
        self.blocks.append(block)
        self._size += len(block) * _BASE64_GROWTH

    def _fit_budget(self) -> None:
        """Lower the limit and pack everything again until the blocks fit the budget."""
        while self._size > self._budget and self.text_limit > 0:
            # If blocks held only texts, their size would be proportional to the characters in them, and this number of
            # characters would fit. Blocks also hold numbers, which are never cut, so this limit may be too high. Then
            # the next round lowers it further.
            lengths = np.sort(np.minimum(self._lengths, self.text_limit))
            fitting_characters = float(lengths.sum()) * self._budget / self._size
            limit = find_limit(lengths, fitting_characters)
            # At least 5% lower, so that there are few rounds even if almost everything is numbers.
            self.text_limit = min(limit, int(0.95 * self.text_limit))
            old_blocks = self.blocks
            self.blocks = []
            self._size = 0.0
            for block in old_blocks:
                self._add_block([cut_texts(group, self.text_limit) for group in unpack(block)])


def find_limit(lengths: np.ndarray, characters: float) -> int:
    """Return the largest limit L with Σ min(length, L) ≤ characters. lengths: sorted, shortest first.

    Three texts of 10, 50 and 90 characters in 100 characters: the first stays whole, the others get 45 each.
    """
    texts_left = len(lengths)
    for length in lengths.tolist():
        # An equal part of the remaining characters for each remaining text. A text that needs less stays whole.
        limit = characters / texts_left
        if length > limit:
            return max(0, int(limit))
        characters -= length
        texts_left -= 1
    return int(lengths.max(initial=0))  # all texts stay whole


def pack(data: Any) -> bytes:
    """Return compressed JSON. A lone surrogate, which UTF-8 cannot hold, becomes a question mark."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return gzip.compress(text.encode("utf-8", "replace"), _GZIP_LEVEL, mtime=0)


def unpack(block: bytes) -> Any:
    """Return the data of a block that `pack` made."""
    return json.loads(gzip.decompress(block))


# -------------------------------------------------------------------------------------------- the page


def read_asset(name: str) -> str:
    """Return the text of a file in assets/."""
    return (files("rubrank.viewer") / "assets" / name).read_text(encoding="utf-8")


def make_script() -> str:
    """Return the page's script, with all modules in one scope."""
    return f'"use strict";\n(() => {{\n{join_modules(SCRIPTS)}\n}})();\n'


def join_modules(names: Iterable[str]) -> str:
    """Return the modules as one text, without `import` lines and the word `export`."""
    modules = "\n".join(read_asset(name) for name in names)
    # such as: import { formatNumber, formatShare } from "./numbers.js";  also over several lines
    modules = re.sub(r"^import \{[^}]*\} from \"\./[\w.]+\";\n", "", modules, flags=re.MULTILINE)
    return re.sub(r"^export ", "", modules, flags=re.MULTILINE)


def _write_page(
    output: Path, title: str, blocks: Mapping[str, Any], group_blocks: Sequence[bytes]
) -> int:
    """Write the file and return its size in bytes."""
    style = read_asset("style.css")
    script = make_script()
    policy = _make_policy(script, style)
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>'
    page = read_asset("index.html")
    page = page.replace("<title>rubrank view</title>", f"<title>{html.escape(title)}</title>")
    page = re.sub(r"<!-- served -->.*?<!-- /served -->", lambda _: head, page, flags=re.DOTALL)
    before, after = page.split("</body>")
    with atomic_write(output) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        file.write(before)
        for name, data in blocks.items():
            file.write(_make_block(name, pack(data)))
        file.write(f"<script>{script}</script>\n")
        # Groups stand behind the script: the page begins to draw before all of them have arrived.
        for number, block in enumerate(group_blocks):
            file.write(_make_block(f"groups-{number}", block))
        file.write(f"</body>{after}")
    return output.stat().st_size


def _make_block(name: str, block: bytes) -> str:
    encoded = base64.b64encode(block).decode("ascii")
    return f'<script type="application/gzip" id="data-{name}">{encoded}</script>\n'


def _make_policy(script: str, style: str) -> str:
    """Return a content policy that allows one script and one style sheet by their hashes, and inline images only."""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
