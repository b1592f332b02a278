import importlib
import pkgutil
import re
from importlib.resources import files

import pytest

import rubrank.verifiers
from rubrank.cli.demo.groups import load_demo_groups
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.rubrics.catalogue import PROMPTED
from rubrank.rubrics.rubric import Rubric, parse_rubric
from rubrank.verifiers.verifier import VERIFIERS

for module in pkgutil.iter_modules(rubrank.verifiers.__path__):  # importing registers
    importlib.import_module(f"rubrank.verifiers.{module.name}")

GROUPS = load_demo_groups()
RUBRICS = {group.id: parse_rubric(group.rubric, group.id) for group in GROUPS}
ROLLOUTS = [rollout for group in GROUPS for rollout in group.rollouts]
GATES = {"EmptyAnswer", "GarbledText", "RepeatSegment", "ThinkLeak", "Truncated"}

STOPPED = {  # what was written to be caught, by whom; nothing else is
    "product-email": {6: {"Truncated"}, 7: {"ThinkLeak"}},
    "explain-dedupe": {5: {"Truncated"}, 6: {"WrongLanguage"}},
    "summary-ferry": {6: {"RepeatSegment"}},
    "order-to-json": {5: {"Truncated"}, 7: {"EmptyAnswer", "Truncated"}},
    "haiku-first-snow": {7: {"WrongLanguage"}},
    "train-meeting-time": {6: {"Truncated"}, 7: {"ThinkLeak"}},
    "which-planet": {7: {"ThinkLeak"}},
    "meeting-notes": {6: {"RepeatSegment"}, 7: {"Truncated"}},
    "lighthouse-keeper": {7: {"EmptyAnswer"}},
    "why-cities-plant-trees": {5: {"Truncated"}, 7: {"WrongLanguage"}},
    "cat-cafe-sign": {7: {"Truncated"}},
    "cangtoushi-chunfenghuayu": {7: {"WrongLanguage"}},
    "translate-library-notice": {6: {"WrongLanguage"}, 7: {"ThinkLeak"}},
    "three-teas-table": {7: {"GarbledText"}},
    "trip-follow-up": {7: {"RepeatSegment"}},
    "discount-maths": {6: {"Truncated"}, 7: {"WrongLanguage"}},
    "weather-and-calendar": {7: {"WrongLanguage"}},
    "leave-request": {6: {"WrongLanguage"}, 7: {"Truncated"}},
}

each_group = pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.id)


def verdicts(group: Group, rubric: Rubric, layer: str) -> dict[str, list[float | None]]:
    """Criterion → the value of each response, of those that a program decides."""
    found = {}
    for criterion in rubric.criteria:
        if criterion.value_layer == layer and not criterion.judged:
            verifier = criterion.decided_by
            params = verifier.check_parameters(dict(criterion.params))
            found[criterion.name] = [verifier.verify(rollout, params).value for rollout in group.rollouts]
    return found


def is_chinese(rollout: Rollout) -> bool:
    return len(re.findall("[\u4e00-\u9fff]", rollout.question)) > 20


def test_there_are_enough_queries_of_both_languages_with_eight_different_responses_each():
    assert len(GROUPS) >= 16
    assert len({group.id for group in GROUPS}) == len(GROUPS)
    languages = [group.rollouts[0].metadata["language"] for group in GROUPS]
    assert languages.count("en") >= 9
    assert languages.count("zh") >= 7
    for group in GROUPS:
        assert len({rollout.response for rollout in group.rollouts}) == len(group.rollouts) == 8
        assert is_chinese(group.rollouts[0]) == (group.rollouts[0].metadata["language"] == "zh")
        assert len({rollout.metadata["kind"] for rollout in group.rollouts}) == 8


def test_the_file_stays_small():
    assert (files("rubrank") / "cli" / "demo" / "demo_groups.jsonl").stat().st_size < 250_000


def test_every_kind_of_rollout_is_there():
    assert sum(rollout.reasoning is not None for rollout in ROLLOUTS) >= 5
    assert sum(rollout.reasoning is None and bool(rollout.thoughts) for rollout in ROLLOUTS) >= 2  # in tags
    assert sum(bool(group.rollouts[0].turns) for group in GROUPS) >= 2
    assert sum(group.rollouts[0].prompt[0].role == "system" for group in GROUPS) >= 4
    assert sum(any(r.tool_calls for r in group.rollouts) and bool(group.rollouts[0].tools) for group in GROUPS) >= 2
    assert {rollout.finish_reason for rollout in ROLLOUTS} >= {"stop", "length", "tool_calls"}


@each_group
def test_rubrics_hold_known_criteria_and_the_gates(group):
    rubric = RUBRICS[group.id]
    by_program = [criterion for criterion in rubric.criteria if not criterion.judged]
    assert all((criterion.verifier or criterion.name) in VERIFIERS for criterion in by_program)
    assert {criterion.name for criterion in rubric.criteria if criterion.judged} <= PROMPTED
    assert "GeneralQuality" in rubric.names
    assert set(rubric.names) >= GATES
    assert 4 <= sum(criterion.value_layer == "quality" for criterion in by_program) <= 8
    assert rubric.contradictions() == ()


@each_group
def test_every_quality_criterion_is_decided_and_tells_responses_apart(group):
    for name, values in verdicts(group, RUBRICS[group.id], "quality").items():
        undecided = {i for i, value in enumerate(values) if value is None}
        assert undecided <= STOPPED.get(group.id, {}).keys(), name  # a gate stops them anyway
        assert len({value for value in values if value is not None}) > 1, name


@each_group
def test_gates_stop_what_was_written_to_be_stopped_and_nothing_else(group):
    found: dict[int, set[str]] = {}
    for name, values in verdicts(group, RUBRICS[group.id], "global_quality").items():
        for i, value in enumerate(values):
            if value == 0:
                found.setdefault(i, set()).add(name)
    assert found == STOPPED.get(group.id, {})


def test_all_gates_are_needed():
    assert {name for stops in STOPPED.values() for names in stops.values() for name in names} == GATES | {
        "WrongLanguage"
    }


def test_in_most_groups_no_response_is_best_at_everything():
    perfect = []
    for group in GROUPS:
        columns = verdicts(group, RUBRICS[group.id], "quality").values()
        best = [max(value for value in column if value is not None) for column in columns]
        if any(all(column[i] == most for column, most in zip(columns, best, strict=True)) for i in range(8)):
            perfect.append(group.id)
    assert len(perfect) <= len(GROUPS) // 4, perfect
