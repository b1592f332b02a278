"""The report: one file that holds everything, keeps its budget, and lets nothing in."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import rubrank
import rubrank.viewer
from rubrank.cli.app import app
from rubrank.drafting.draft import draft_rubric
from rubrank.errors import InvalidInput
from rubrank.evaluation.benchmark import ItemScore
from rubrank.evaluation.runs import EvalRun, write_run
from rubrank.records.files import write_records
from rubrank.records.record import GroupRecord, explain, records_of
from rubrank.viewer.group_data import make_group_data
from rubrank.viewer.report import SCRIPTS, Packer, find_limit, make_script, pack, read_asset, unpack, write_report

Make = Callable[..., GroupRecord]
EVIL = ("<script>alert(1)</script>", "</script><img src=x onerror=alert(1)>", "\u2028<!-- /served -->", "'\"><b>")


class Page(HTMLParser):
    """Tags and scripts of a page, as a browser would read them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.title = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script" and self.scripts:
            at, text = self.scripts[-1]
            self.scripts[-1] = at, text + data
        if self.tags and self.tags[-1][0] == "title":
            self.title += data.strip()

    def data(self, id: str) -> object:
        """What a block of data holds."""
        text = next(text for at, text in self.scripts if at.get("id") == id).strip()
        return json.loads(gzip.decompress(base64.b64decode(text)))


@pytest.fixture
def evil(record_of: Make) -> GroupRecord:
    return record_of(
        {EVIL[0]: [0.0, 1.0, None, 1.0]},
        [0.0, 1.0, 0.5, 1.0],
        group=EVIL[1],
        rule=EVIL[3],
        responses=EVIL,
        reasoning=EVIL,
        prompt=({"role": EVIL[0], "content": EVIL[1]},),
        reasons=tuple((text,) for text in EVIL),
        flags=EVIL,
        metadata={EVIL[1]: EVIL[0]},
        others={EVIL[0]: (0.0, 0.0, 0.0, 1.0)},
    )


def test_texts_are_data_and_never_markup(tmp_path: Path, evil: GroupRecord) -> None:
    write_report([evil], tmp_path / "r.html", title=EVIL[1])
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.title == EVIL[1]
    for words in EVIL:
        assert words not in text
    assert not [tag for tag, _ in page.tags if tag in ("img", "iframe", "b")]
    blocks = [at.get("id") for at, _ in page.scripts]
    names = ["data-state", "data-index", "data-scores", "data-curves", "data-summary"]
    assert blocks == [*names, None, "data-groups-0"]
    (group,) = page.data("data-groups-0")  # type: ignore[misc]
    assert tuple(group["responses"]) == EVIL
    assert page.data("data-index")["id"] == [EVIL[1]]  # type: ignore[index]


def test_only_our_own_script_may_run_and_nothing_is_fetched(tmp_path: Path, evil: GroupRecord) -> None:
    write_report([evil], tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    page = Page(text)
    policy = next(at["content"] or "" for tag, at in page.tags if tag == "meta" and "http-equiv" in at)
    assert "default-src 'none'" in policy
    for tag in ("script", "style"):
        body = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert body is not None
        digest = base64.b64encode(hashlib.sha256(body[1].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert not [at for tag, at in page.tags if "src" in at or (tag == "link" and at["href"] != "data:,")]
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text)


def test_no_asset_writes_html_from_text() -> None:
    for name in SCRIPTS:
        assert not re.search(r"(inner|outer|Adjacent)HTML|document\.write|\beval\b|new Function", read_asset(name))


def test_every_asset_is_used() -> None:
    folder = Path(rubrank.viewer.__file__).parent / "assets"
    assert {path.name for path in folder.iterdir()} == {*SCRIPTS, "index.html", "style.css"}


def test_modules_can_share_one_scope() -> None:
    """Every import names what a module before it exports, and no two modules have a top-level name in common."""
    exported: dict[str, set[str]] = {}
    owner: dict[str, str] = {}
    for name in SCRIPTS:
        text = read_asset(name)
        for names, module in re.findall(r'^import \{ ([^}]*) \} from "\./([\w.]+)";$', text, re.MULTILINE):
            assert set(names.split(", ")) <= exported[module], f"{name} imports from {module}"
        declaration = r"^(export )?(?:async )?(?:function\*?|const|let|class) (\w+)"
        for public, declared in re.findall(declaration, text, re.MULTILINE):
            assert owner.setdefault(declared, name) == name, f"{declared} in {owner[declared]} and {name}"
            if public:
                exported.setdefault(name, set()).add(declared)
    assert not re.search(r"^(import|export)\b", make_script(), re.MULTILINE)


def test_a_report_of_a_file_and_of_records_are_the_same(tmp_path: Path, demo_records: list[GroupRecord]) -> None:
    write_records(tmp_path / "records.jsonl.gz", demo_records)
    one = write_report(tmp_path / "records.jsonl.gz", tmp_path / "new" / "one.html", title="t")
    other = write_report(iter(demo_records), tmp_path / "other.html", title="t")
    assert (one.groups, one.rollouts, one.steps) == (len(demo_records), sum(r.size for r in demo_records), 1)
    assert one.bytes == one.path.stat().st_size
    first, second = (Page(s.path.read_text(encoding="utf-8")) for s in (one, other))
    for block in ("data-index", "data-summary", "data-scores", "data-groups-0"):
        assert first.data(block) == second.data(block)


def test_writing_twice_gives_the_same_bytes(tmp_path: Path, demo_records: list[GroupRecord]) -> None:
    for name in ("a", "b"):
        write_report(demo_records, tmp_path / f"{name}.html")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_lengths_are_measured_where_texts_are(tmp_path: Path, demo_records: list[GroupRecord], record_of: Make) -> None:
    silent = record_of({"A": [0.0, 1.0]}, [0.0, 1.0])

    def attributes(records: list[GroupRecord], **options: bool) -> dict[str, bool]:
        write_report(records, tmp_path / "r.html", **options)  # type: ignore[arg-type]
        data = Page((tmp_path / "r.html").read_text(encoding="utf-8")).data("data-summary")
        return {a["name"]: a["measured"] for a in data["attributes"]["correlation"]["attributes"]}  # type: ignore[index]

    found = attributes([silent, *demo_records])
    assert found["reasoning words"] is False  # recorded, and so not measured again
    assert found["answer words"] is True
    assert found["Markdown: heading"] is True
    assert "answer words" not in attributes(demo_records, measure=False)
    assert attributes([silent]) == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [({"text_limit": -1}, "text_limit must be at least 0"), ({"budget_mb": 0.0}, "budget_mb must be more than 0")],
)
def test_options_that_make_no_sense(tmp_path: Path, options: dict, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        write_report(tmp_path / "no.jsonl", tmp_path / "r.html", **options)


def test_no_records_no_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="at least one group"):
        write_report([], tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()


def run(*arguments: object):
    return CliRunner().invoke(app, ["report", *(str(argument) for argument in arguments)])


def test_the_verb(tmp_path: Path, demo_records: list[GroupRecord]) -> None:
    write_records(tmp_path / "r.jsonl", demo_records)
    ran = run(tmp_path / "r.jsonl", "-o", tmp_path / "r.html", "--set", "text_limit=40", "--title", "Mine")
    assert ran.exit_code == 0, ran.output
    assert str(tmp_path / "r.html") in ran.stdout
    assert f"{len(demo_records)} groups, " in ran.stderr
    assert "texts cut to 40 characters" in ran.stderr
    assert Page((tmp_path / "r.html").read_text(encoding="utf-8")).title == "Mine"
    as_json = json.loads(run(tmp_path / "r.jsonl", "-o", tmp_path / "r.html", "--json", "--force").stdout)
    assert (as_json["groups"], as_json["path"]) == (len(demo_records), str(tmp_path / "r.html"))


def test_the_report_lists_what_lint_finds(tmp_path: Path) -> None:
    """Every response has the best score of Nice, whose question is vague, too."""
    scores = np.random.default_rng(1).normal(size=(12, 6, 2))
    scores[:, :, 0] = 1.0
    batch = rubrank.ScoreBatch.of_arrays(scores, criteria=["Nice", "Clear"])
    write_records(tmp_path / "r.jsonl", records_of(rubrank.RLVR2()(batch)))
    (tmp_path / "rubric.yaml").write_text("criteria: [{name: Nice, question: Is the answer good?}]")

    def kinds() -> list[str]:
        summary = Page((tmp_path / "r.html").read_text(encoding="utf-8")).data("data-summary")
        return [finding["kind"] for finding in summary["findings"]]  # type: ignore[index]

    assert run(tmp_path / "r.jsonl", "-o", tmp_path / "r.html").exit_code == 0
    assert "saturated" in kinds()
    assert "vague" not in kinds()
    with_rubric = run(tmp_path / "r.jsonl", "-o", tmp_path / "r.html", "--rubric", tmp_path / "rubric.yaml", "--force")
    assert with_rubric.exit_code == 0, with_rubric.output
    assert "vague" in kinds()
    wrong = run(tmp_path / "r.jsonl", "-o", tmp_path / "r.html", "--rubric", tmp_path / "none.yaml", "--force")
    assert wrong.exit_code == 2
    assert "none.yaml" in wrong.stderr


def test_the_verb_says_what_is_wrong(tmp_path: Path) -> None:
    ran = run(tmp_path / "none.jsonl", "-o", tmp_path / "r.html")
    assert ran.exit_code == 2
    assert "none.jsonl: the file must be a file that can be read; got no such file" in ran.stderr


def pack_records(records: list[GroupRecord], limit: int = 4000, budget: float = 1e9) -> Packer:
    packer = Packer(limit, budget)
    for record in records:
        packer.add(record)
    packer.finish()
    return packer


def list_groups(packer: Packer) -> list[dict[str, Any]]:
    return [group for block in packer.blocks for group in unpack(block)]


def test_a_training_folder_is_named_and_read_as_one_run(tmp_path: Path, demo_records: list[GroupRecord]) -> None:
    folder = tmp_path / "cold-start"
    write_records(folder / "records.jsonl", demo_records)
    (folder / "prompts.jsonl").write_text('{"prompt": "not a record"}\n', encoding="utf-8")
    for source in (folder, folder / "records.jsonl"):
        done = run(source, "-o", tmp_path / "report.html", "--force")
        assert done.exit_code == 0, done.output
        assert "<title>rubrank report: cold-start</title>" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_rollouts_are_graded_first(tmp_path: Path) -> None:
    rows = [{"prompt": "p", "response": "word " * n} for n in (2, 9)]
    rollouts = tmp_path / "rollouts.jsonl"
    rollouts.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    rubric = tmp_path / "rubric.yaml"
    rubric.write_text("criteria:\n- {name: Short, verifier: WordCount, params: {high: 5}}\n", encoding="utf-8")
    done = run(rollouts, "--rubric", rubric, "-o", tmp_path / "report.html", "--json")
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    assert (summary["groups"], summary["rollouts"], summary["criteria"]) == (1, 2, 1)

    refused = run(rollouts, "-o", tmp_path / "other.html")
    assert (refused.exit_code, "--rubric FILE" in refused.output) == (2, True)


def write_draft_file(path: Path, *prompts: str) -> Path:
    rows = [draft_rubric(prompt, activate=False).to_row() for prompt in prompts]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_scored_run(path: Path, model: str, correct: int) -> Path:
    """A run of 40 items, of which some are correct."""
    scores = tuple(ItemScore(str(n), {"correct": float(n < correct)}) for n in range(40))
    write_run(EvalRun("frames", model, {"context": "oracle"}, scores, {"accuracy": correct / 40}), path)
    return path


def test_drafted_rubrics_are_written_as_one_page(tmp_path: Path) -> None:
    drafted = write_draft_file(tmp_path / "rubrics.jsonl", "Use at most 30 words. <b>", "Reply in French. \ud800")
    done = run(drafted, "-o", tmp_path / "page.html", "--json")
    assert done.exit_code == 0, done.output
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert json.loads(done.stdout)["drafts"] == 2
    assert json.loads(done.stdout)["bytes"] == len(page.encode())
    assert "<mark>Use at most 30 words.</mark> &lt;b&gt;" in page
    assert "Reply in French.</mark> ?" in page, "a lone surrogate is replaced"
    assert "<title>rubrank report: rubrics.jsonl</title>" in page
    assert '<a href="#row-2">' in page
    assert "<main id=row-2>" in page
    assert not re.search(r"(src|href)=.?(https?:)?/", page), "nothing is loaded"


def test_runs_of_eval_are_written_as_benchmarks_alone(tmp_path: Path) -> None:
    write_scored_run(tmp_path / "runs" / "a" / "frames.json", "a", 10)
    other = write_scored_run(tmp_path / "other" / "frames.json", "b", 30)
    done = run(tmp_path / "runs", "--eval", other, "--title", "Two models", "-o", tmp_path / "page.html", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["scored_runs"] == 2
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    blocks = dict(re.findall(r'id="data-([\w-]+)">([^<]+)<', page))
    assert sorted(blocks) == ["evaluation", "state"]
    evaluation = unpack(base64.b64decode(blocks["evaluation"]))
    assert [(row["model"], row["points"][0]) for row in evaluation["rows"]] == [("a", 25.0), ("b", 75.0)]
    state = unpack(base64.b64decode(blocks["state"]))
    assert (state["runs"], state["has_evaluation"], state["title"]) == ([], True, "Two models")


@pytest.mark.parametrize(
    ("line", "option"),
    [
        (("--rule", "gdpo"), "--rule"),
        (("--rubric", "chat"), "--rubric"),
        (("--group-column", "a"), "--group-column"),
        (("--set", "text_limit=9"), "--set text_limit"),
    ],
)
def test_a_source_without_groups_refuses_options_of_groups(tmp_path: Path, line: tuple[str, ...], option: str) -> None:
    drafted = write_draft_file(tmp_path / "rubrics.jsonl", "Why?")
    scored = write_scored_run(tmp_path / "frames.json", "a", 10)
    for source in (drafted, scored):
        refused = run(source, *line, "-o", tmp_path / "page.html")
        assert refused.exit_code == 2
        assert f"{option} must be given with scores or rollouts" in " ".join(refused.output.split())
        assert not (tmp_path / "page.html").exists()
    refused = run(drafted, "--eval", scored, "-o", tmp_path / "page.html")
    assert "--eval must be given with scores or rollouts; got drafted rubrics" in " ".join(refused.output.split())


def test_a_group_as_the_page_reads_it(demo_records: list[GroupRecord]) -> None:
    packer = pack_records(demo_records)
    for record, group in zip(demo_records, list_groups(packer), strict=True):
        assert [tuple(row) for row in group["scores"]] == list(record.scores)
        assert np.array(group["utilities"]) == pytest.approx(np.array(record.utilities), abs=1e-7)
        assert group["reward"] == pytest.approx(record.reward, abs=1e-7)
        assert tuple(group["responses"]) == record.responses
        assert [message["content"] for message in record.prompt or ()] == [m["content"] for m in group["prompt"]]
        assert group["explanations"] == [explain(record, i) for i in range(record.size)]
    assert (packer.count_cut(), packer.text_limit) == (0, 4000)


def test_outcomes_by_hand(record_of: Make) -> None:
    won = ((None, 0.7, None), (0.3, None, 0.5), (None, 0.5, None))
    group = make_group_data(
        record_of({"A": [1.0, 0.0, None], "B": [None] * 3}, [1.0, 0.0, 0.5], outcomes={"B": won}), 100
    )
    assert group["outcomes"] == [[".W.", "L..", "..."], [".W.", "L.T", ".T."]]


def test_long_texts_are_cut_and_say_so(record_of: Make) -> None:
    call = {"name": "search", "arguments": "a" * 60, "result": "r" * 10}
    turns = (({"role": "assistant", "content": "t" * 70, "tool_calls": [call]},), ())
    record = record_of(
        {"A": [0.0, 1.0]}, [0.0, 1.0], responses=("x" * 50, "y" * 51), reasoning=("", "z" * 99), turns=turns
    )
    packer = pack_records([record], limit=50)
    (group,) = list_groups(packer)
    assert group["responses"] == ["x" * 50, {"text": "y" * 50, "length": 51}]
    assert group["reasoning"] == ["", {"text": "z" * 50, "length": 99}]
    assert group["turns"][0][0]["content"] == {"text": "t" * 50, "length": 70}
    assert group["turns"][0][0]["calls"][0]["arguments"] == {"text": "a" * 50, "length": 60}
    assert group["turns"][0][0]["calls"][0]["name"] == "search"
    assert packer.count_cut() == 4


@pytest.mark.parametrize("budget", [60_000, 150_000, 400_000])
def test_the_budget_is_kept_and_used(record_of: Make, budget: int) -> None:
    random = np.random.default_rng(0)
    records = []
    for n in range(197):
        texts = tuple(random.bytes(int(size)).hex() for size in random.integers(10, 700, 4))
        records.append(
            record_of({"A": random.random(4).tolist()}, [0.0, 0.2, 0.4, 1.0], group=f"g{n}", responses=texts)
        )
    packer = pack_records(records, limit=2000, budget=budget)
    size = sum(map(len, packer.blocks)) * 4 / 3
    assert size <= budget
    assert size > 0.8 * budget or packer.text_limit == 0
    assert packer.text_limit < 2000
    for record, group in zip(records, list_groups(packer), strict=True):
        for text, kept in zip(record.responses or (), group["responses"], strict=True):
            if len(text) <= packer.text_limit:
                assert kept == text
            else:
                assert kept == {"text": text[: packer.text_limit], "length": len(text)}


def test_numbers_stay_when_even_they_are_too_much(record_of: Make) -> None:
    record = record_of({"A": [0.0, 1.0]}, [0.0, 1.0], responses=("long", "longer"))
    packer = pack_records([record], budget=1.0)
    assert packer.text_limit == 0
    (group,) = list_groups(packer)
    assert group["responses"] == [{"text": "", "length": 4}, {"text": "", "length": 6}]
    assert group["scores"] == [[0.0], [1.0]]


def test_the_limit_for_an_amount_of_text() -> None:
    lengths = np.array([1.0, 4.0, 10.0])
    for characters, limit in ((15.0, 10), (14.0, 9), (9.0, 4), (6.0, 2), (3.0, 1), (2.0, 0), (-5.0, 0)):
        assert find_limit(lengths, characters) == limit
    assert find_limit(np.zeros(0), 5.0) == 0


def test_a_lone_surrogate_is_no_reason_to_fail() -> None:
    assert unpack(pack(["a\ud800b", "中文", "\u2028"])) == ["a?b", "中文", "\u2028"]
