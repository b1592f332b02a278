"""What can be wrong about a cluster is said in one line: its address, its processes, what they cannot know."""

from __future__ import annotations

import os
import pickle
import socket
import sys

import pytest
from typer.testing import CliRunner
from whole_tables import fuse_file

import rubrank
from rubrank import InvalidInput, RubrankError
from rubrank._plugins import Imported
from rubrank.cli.app import app
from rubrank.fusion.cluster import modules_of
from rubrank.grading.cluster import check_reachable, get_result, import_ray, start_ray
from rubrank.grading.plan import read_rubric
from rubrank.grading.ray_grader import ActorSetting, RowGrader, grade_on_ray

OWN = "ray_mistakes_models"
MODEL = """
import rubrank

@rubrank.utility_model("ray-signs")
def signs(wins, ridge):
    return (wins.sum(-1) - wins.sum(-2)) / ridge
"""
ROWS = [{"uid": f"q{g}", "Facts": (g * i % 3) / 2, "Style": (i * 7 % 5) / 4} for g in range(9) for i in range(4)]


@pytest.fixture
def unused():
    """An address at which nothing answers."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    return f"127.0.0.1:{port}"


@pytest.mark.parametrize(
    "address", ["", "head", "http://head:8265", "head:99999", "head:1 ", "ray://", "ray://head", ":1"]
)
def test_what_is_no_address_is_refused(address):
    with pytest.raises(InvalidInput, match="HOST:PORT"):
        check_reachable(address, "grade")


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_at_which_nothing_answers_is_refused_at_once(unused, scheme):
    with pytest.raises(InvalidInput, match="nothing answers"):
        check_reachable(scheme + unused, "grade")


def test_an_address_that_answers_is_left_to_ray():
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_reachable(f"ray://127.0.0.1:{server.getsockname()[1]}", "grade")
    check_reachable("auto", "grade")


@pytest.mark.parametrize("verb", [["grade", "-r", "none.yaml"], ["fuse"]], ids=["grade", "fuse"])
def test_the_verbs_say_so_before_anything_is_read(monkeypatch, unused, verb):
    monkeypatch.setattr("rubrank.grading.cluster.import_ray", lambda owner: None)
    flags = ["--set", f"address={unused}"] if verb == ["fuse"] else ["--address", unused]
    found = CliRunner().invoke(app, [*verb, "no-such.jsonl", "--engine", "ray", *flags])
    assert found.exit_code == 2
    assert "address must be" in found.stderr
    assert len(found.stderr.splitlines()) == 1


@pytest.mark.parametrize("number", ["1", "2", "4"])
def test_replicas_without_ray_are_refused(monkeypatch, tmp_path, number):
    """One process would be served, whatever the number; also the one that is the default."""
    monkeypatch.setattr("rubrank.service.config.require_packages", lambda ray: None)
    config = tmp_path / "service.json"
    config.write_text('{"rubric": ["EmptyAnswer"]}', encoding="utf-8")
    found = CliRunner().invoke(app, ["serve", str(config), "--dry-run", "--replicas", number])
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr.splitlines() == ["rubrank: serve: --replicas must be used with --ray; got no --ray."]
    assert CliRunner().invoke(app, ["serve", str(config), "--dry-run"]).exit_code == 0


def test_a_service_is_checked_before_it_is_planned(monkeypatch, unused, tmp_path):
    monkeypatch.setattr("rubrank.service.config.require_packages", lambda ray: None)
    config = tmp_path / "service.json"
    config.write_text('{"rubric": ["EmptyAnswer"]}', encoding="utf-8")
    told = ["serve", str(config), "--dry-run", "--address", unused]
    for flags, said in (([], "used with --ray"), (["--ray"], "nothing answers there")):
        found = CliRunner().invoke(app, [*told, *flags])
        assert found.exit_code == 2
        assert "serve: --address must be" in found.stderr
        assert said in found.stderr
        assert len(found.stderr.splitlines()) == 1
        assert not found.stdout
    config.write_text('{"rubric": ["EmptyAnswer"], "rule": "amrp+"}', encoding="utf-8")
    found = CliRunner().invoke(app, ["serve", str(config), "--dry-run", "--ray"])
    assert found.exit_code == 2
    assert "a rule that does not learn" in found.stderr


@pytest.mark.parametrize("verb", [["grade", "-r", "none.yaml"], ["fuse"]], ids=["grade", "fuse"])
def test_without_ray_the_verbs_say_what_to_install(monkeypatch, verb):
    monkeypatch.setitem(sys.modules, "ray", None)
    found = CliRunner().invoke(app, [*verb, "no-such.jsonl", "--engine", "ray"])
    assert found.exit_code == 2
    assert f"{verb[0]}: --engine must be" in found.stderr
    assert "pip install 'rubrank[ray]'" in found.stderr
    with pytest.raises(InvalidInput):
        import_ray("grade")


def test_flags_are_named_where_ray_has_limits_of_its_own(monkeypatch, tmp_path):
    monkeypatch.setattr("rubrank.grading.cluster.import_ray", lambda owner: None)
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": "p", "group": "q", "response": "r"}\n', encoding="utf-8")
    rubric = tmp_path / "rubric.json"
    rubric.write_text('{"criteria": ["EmptyAnswer"]}', encoding="utf-8")
    told = ["-r", str(rubric), "-o", str(tmp_path / "s.jsonl"), "--engine", "ray", "--workers", "0"]
    found = CliRunner().invoke(app, ["grade", str(rows), *told])
    assert "grade: --workers must be 1 or more; got 0." in found.stderr


class Starts:
    """Ray as far as starting goes."""

    def __init__(self):
        self.told = {}

    def init(self, **told):
        self.told = told


def test_a_cluster_of_ones_own_is_started_whatever_else_runs_here():
    ray = Starts()
    start_ray(ray, None, "serve", namespace="n", num_cpus=6)
    assert ray.told["address"] == "local"
    assert ray.told["num_cpus"] == 6
    start_ray(ray, "auto", "serve", namespace="n", num_cpus=6)
    assert ray.told["address"] == "auto"
    assert ray.told["namespace"] == "n"
    assert "num_cpus" not in ray.told  # it has what it has


def test_a_process_that_is_lost_is_one_line():
    lost = type("ActorDiedError", (Exception,), {"__module__": "ray.exceptions"})

    class Lost:
        def get(self, reference):
            raise reference

    with pytest.raises(RubrankError, match=r"grade on Ray: .*ActorDiedError: The actor died\)") as told:
        get_result(Lost(), lost("The actor died.\n\tclass_name: Grader\n"), "grade on Ray")
    assert "\n" not in str(told.value)
    with pytest.raises(KeyError):  # what is not of the cluster stays as it is
        get_result(Lost(), KeyError("x"), "grade on Ray")


def test_what_an_interrupted_run_keeps_is_said(monkeypatch, tmp_path):
    def interrupted(address, owner):
        raise KeyboardInterrupt

    monkeypatch.setattr("rubrank.grading.ray_grader.connect_ray", interrupted)
    rows = [{"prompt": "p", "group": "q", "response": "r"}]
    endpoint = {"base_url": "http://127.0.0.1:1/v1", "model": "m"}
    judges = {"judges": [{"endpoints": [endpoint]}], "cache": str(tmp_path / "replies.sqlite")}
    with pytest.raises(KeyboardInterrupt, match=r"replies\.sqlite; run the same command again"):
        grade_on_ray(rows, ["CoreIntentMatch"], judges=judges)
    with pytest.raises(KeyboardInterrupt, match="nothing was saved"):
        grade_on_ray(rows, ["EmptyAnswer"])


@pytest.mark.parametrize("needs_groups", [False, True])
def test_a_batch_without_rows_gets_the_same_columns(needs_groups):
    """Ray Data passes such batches, for example what a filter left of a block."""
    pa = pytest.importorskip("pyarrow")
    setting = ActorSetting(read_rubric(["EmptyAnswer"]))
    row_grader = RowGrader(setting, None, "uid", needs_groups, {})
    rows = pa.table({"uid": ["q"], "prompt": ["p"], "response": ["r"]})
    graded = row_grader(rows)
    assert graded.num_rows == 1
    assert row_grader(rows.slice(0, 0)).schema == graded.schema


def test_a_copy_has_imported_its_modules(tmp_path, monkeypatch):
    (tmp_path / "imported_by_a_copy.py").write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    pickle.loads(pickle.dumps(Imported(("imported_by_a_copy",))))
    assert sys.modules.pop("imported_by_a_copy", None) is not None


def test_a_model_of_this_process_is_refused():
    @rubrank.utility_model("ray-only-here")
    def only_here(wins, ridge):
        return wins.sum(-1)

    with pytest.raises(InvalidInput, match="ray-only-here"):
        modules_of(rubrank.RLVR2(model="ray-only-here"))
    assert modules_of(rubrank.RLVR2(model="thurstone")) == Imported()
    assert modules_of(rubrank.find_rule("gdpo")) == Imported()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_model_of_a_module_is_known_to_tasks(tmp_path, monkeypatch):
    ray = pytest.importorskip("ray", reason="ray is not installed")
    (tmp_path / f"{OWN}.py").write_text(MODEL, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    __import__(OWN)
    options = rubrank.FuseOptions(model="ray-signs")
    ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
    try:
        for engine in ("local", "ray"):
            fuse_file(ROWS, tmp_path / f"{engine}.jsonl", options, engine=engine)
    finally:
        ray.shutdown()
    assert (tmp_path / "ray.jsonl").read_bytes() == (tmp_path / "local.jsonl").read_bytes()
