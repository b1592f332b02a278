"""One file that holds everything, lets nothing in, and says what is wrong before anything is written."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from rubrank.cli.verbs.report import report
from rubrank.errors import InvalidInput
from rubrank.records import pages
from rubrank.records.files import write_records
from rubrank.records.record import GroupRecord
from rubrank.records.report import write_report
from rubrank.records.report.page import SCRIPTS, _fill, asset

Make = Callable[..., GroupRecord]
EVIL = ("<script>alert(1)</script>", "</script><img src=x onerror=alert(1)>", "\u2028<!-- {{data}} -->", "'\"><b>")


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
    assert [at.get("id") for at, _ in page.scripts] == ["data", "index", None, "chunk-0"]
    (group,) = page.data("chunk-0")  # type: ignore[misc]
    assert tuple(group["t"]) == EVIL
    assert page.data("index")["columns"][0] == [EVIL[1]]  # type: ignore[index]


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
    for name in (*pages.SCRIPTS, *SCRIPTS):
        assert not re.search(r"(inner|outer|Adjacent)HTML|document\.write|\beval\b|new Function", asset(name))


def test_every_asset_is_used() -> None:
    records = Path(pages.__file__).parents[1]
    assert {path.name for path in (records / "report" / "assets").iterdir()} == {*SCRIPTS, "page.html"}
    assert {path.name for path in (records / "pages" / "assets").iterdir()} == {*pages.SCRIPTS, *pages.STYLES}


def test_modules_can_share_one_scope() -> None:
    """Every import names what a module before it exports, and no two modules have a top-level name in common."""
    exported: dict[str, set[str]] = {}
    owner: dict[str, str] = {}
    for name in (*pages.SCRIPTS, *SCRIPTS):
        text = asset(name)
        for names, module in re.findall(r'^import \{ ([^}]*) \} from "\./([\w.]+)";$', text, re.MULTILINE):
            assert set(names.split(", ")) <= exported[module], f"{name} imports from {module}"
        declared = r"^(export )?(?:async )?(?:function\*?|const|let|class) (\w+)"
        for public, found in re.findall(declared, text, re.MULTILINE):
            assert owner.setdefault(found, name) == name, f"{found} in {owner[found]} and {name}"
            if public:
                exported.setdefault(name, set()).add(found)
        assert len(text.splitlines()) < 400
    bundle = pages.bundled(map(asset, (*pages.SCRIPTS, *SCRIPTS)))
    assert not re.search(r"^(import|export)\b", bundle, re.MULTILINE)


def test_a_value_is_not_filled_again() -> None:
    assert _fill("{{a}}-{{b}}", a="{{b}}", b="x") == "{{b}}-x"


def test_a_report_of_a_file_and_of_records_are_the_same(tmp_path: Path, demo_records: list[GroupRecord]) -> None:
    write_records(tmp_path / "records.jsonl.gz", demo_records)
    one = write_report(tmp_path / "records.jsonl.gz", tmp_path / "new" / "one.html", title="t")
    other = write_report(iter(demo_records), tmp_path / "other.html", title="t")
    assert (one.groups, one.rollouts, one.steps) == (len(demo_records), sum(r.size for r in demo_records), 1)
    assert one.bytes == one.path.stat().st_size
    first, second = (Page(s.path.read_text(encoding="utf-8")) for s in (one, other))
    assert first.data("index") == second.data("index")
    assert first.data("data") == {**second.data("data"), "source": "records.jsonl.gz"}  # type: ignore[dict-item]


def test_writing_twice_gives_the_same_bytes(tmp_path: Path, demo_records: list[GroupRecord]) -> None:
    for name in ("a", "b"):
        write_report(demo_records, tmp_path / f"{name}.html")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_lengths_are_measured_where_texts_are(tmp_path: Path, demo_records: list[GroupRecord], record_of: Make) -> None:
    silent = record_of({"A": [0.0, 1.0]}, [0.0, 1.0])

    def attributes(records: list[GroupRecord], **options: bool) -> dict[str, bool]:
        write_report(records, tmp_path / "r.html", **options)  # type: ignore[arg-type]
        data = Page((tmp_path / "r.html").read_text(encoding="utf-8")).data("data")
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
    app = typer.Typer()
    app.command()(report)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_verb(tmp_path: Path, demo_records: list[GroupRecord]) -> None:
    write_records(tmp_path / "r.jsonl", demo_records)
    ran = run(tmp_path / "r.jsonl", "-o", tmp_path / "r.html", "--text-limit", 40, "--title", "Mine")
    assert ran.exit_code == 0, ran.output
    assert str(tmp_path / "r.html") in ran.stdout
    assert f"{len(demo_records)} groups, " in ran.stderr
    assert "texts cut to 40 characters" in ran.stderr
    assert Page((tmp_path / "r.html").read_text(encoding="utf-8")).title == "Mine"
    as_json = json.loads(run(tmp_path / "r.jsonl", "-o", tmp_path / "r.html", "--json", "--force").stdout)
    assert (as_json["groups"], as_json["path"]) == (len(demo_records), str(tmp_path / "r.html"))


def test_the_verb_says_what_is_wrong(tmp_path: Path) -> None:
    ran = run(tmp_path / "none.jsonl", "-o", tmp_path / "r.html")
    assert ran.exit_code == 2
    assert "none.jsonl: the file must be a file that can be read; got no such file" in ran.stderr
