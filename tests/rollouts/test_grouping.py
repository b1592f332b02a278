"""Which rows are one group depends on the rows alone, and nothing that a row says is set aside."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubrank import Group, Rollout
from rubrank.errors import InvalidInput
from rubrank.rollouts.groups import read_groups, read_rollouts


def answers(groups: list[Group]) -> dict[str, list[str]]:
    return {group.id: [rollout.response for rollout in group.rollouts] for group in groups}


def row(response, **more):
    return {"prompt": "p", "response": response, **more}


def test_different_ids_with_the_same_prompt_stay_apart():
    for name in ("group", "prompt_id", "uid", "id"):
        assert answers(read_groups([row("a", **{name: 1}), row("b", **{name: 2})])) == {"1": ["a"], "2": ["b"]}


@pytest.mark.parametrize("nothing", [{}, {"group": None}, {"group": ""}, {"group": float("nan")}])
def test_one_row_without_a_group_is_an_error_and_regroups_nobody(nothing):
    rows = [row("a", group="x"), row("b", group="x"), row("c", **nothing)]
    with pytest.raises(InvalidInput, match="row 3: the group must be given"):
        read_groups(rows)


def test_the_same_prompt_in_two_steps_is_two_groups():
    rows = [row(f"{step}{i}", step=step) for step in (1, 2) for i in range(2)]
    assert [[r.response for r in g.rollouts] for g in read_groups(rows)] == [["10", "11"], ["20", "21"]]
    named = [{**r, "prompt_id": "q"} for r in rows]
    assert answers(read_groups(named)) == {"q (step 1)": ["10", "11"], "q (step 2)": ["20", "21"]}
    assert answers(read_groups(named[:2])) == {"q": ["10", "11"]}


def test_a_step_that_some_rows_lack_is_an_error():
    with pytest.raises(InvalidInput, match="row 2: the step"):
        read_groups([row("a", step=1), row("b")])


def test_rubrics_that_differ_in_a_group_are_an_error():
    with pytest.raises(InvalidInput, match=r"row 2: the rubric of group 'g' must be the same in all rows"):
        read_groups([row("a", group="g", rubric=["Postscript"]), row("b", group="g", rubric=["Is it kind?"])])
    ids = [row("a", instruction_id_list=[name], kwargs=[{}]) for name in ("a:b", "a:c")]
    with pytest.raises(InvalidInput, match="the same in all rows"):
        read_groups(ids)


def test_a_rubric_may_stand_in_one_row_of_its_group():
    (group,) = read_groups([row("a", group="g", rubric=["Postscript"]), row("b", group="g")])
    assert group.rubric == ["Postscript"]


def test_two_columns_that_name_different_groups_are_both_named():
    rows = [row("a", uid=1, prompt_id=1), row("b", uid=2, prompt_id=1)]
    with pytest.raises(InvalidInput, match=r"two readings: by 'uid' and by 'prompt_id'.*`group_column="):
        read_groups(rows)
    assert answers(read_groups(rows, {"group": "prompt_id"})) == {"1": ["a", "b"]}
    assert answers(read_groups([row("a", uid=1, prompt_id=7), row("b", uid=1, prompt_id=7)])) == {"1": ["a", "b"]}


def test_several_columns_name_a_group_together():
    rows = [row(a + b, source=a, number=b) for a in "xy" for b in "12"]
    assert answers(read_groups(rows, {"group": ["source", "number"]})).keys() == {"x/1", "x/2", "y/1", "y/2"}
    slashes = [row("a", source="x/1", number="2"), row("b", source="x", number="1/2")]
    assert answers(read_groups(slashes, {"group": ["source", "number"]})) == {r"x\/1/2": ["a"], "x/1/2": ["b"]}


def test_rollouts_that_name_no_group_beside_some_that_do():
    some = [Rollout(prompt="p", response="a", metadata={"group": "g"}), Rollout(prompt="p", response="b")]
    with pytest.raises(InvalidInput, match="the group must be given"):
        read_groups(some)
    steps = [Rollout(prompt="p", response=str(i), metadata={"step": i // 2}) for i in range(4)]
    assert [len(group.rollouts) for group in read_groups(steps)] == [2, 2]


def test_what_was_read_is_said():
    said = str(read_rollouts([row("a", prompt_id=1), row("b", prompt_id=1)]))
    assert said == "read 2 rollouts in 1 group (rows, by prompt_id)."
    assert "one rollout" in str(read_rollouts([row("a", id=1), row("b", id=2)]))


_ROWS = st.lists(
    st.fixed_dictionaries(
        {"group": st.sampled_from("abc"), "prompt": st.sampled_from("pq"), "step": st.integers(0, 1)}
    ),
    min_size=1,
    max_size=8,
)


def partition(rows):
    """Rows by number → the rows that are with them; None if the rows are refused."""
    try:
        groups = read_groups([{**r, "response": str(i)} for i, r in enumerate(rows)])
    except InvalidInput as error:
        if "the prompt of group" not in str(error):
            raise
        return None
    return {int(r.response): {int(o.response) for o in group.rollouts} for group in groups for r in group.rollouts}


@given(
    _ROWS, _ROWS, st.sampled_from([("group",), ("prompt",), ("group", "step"), ("prompt", "step"), ("group", "prompt")])
)
def test_other_rows_of_a_file_never_regroup_the_first(some, others, kept):
    some, others = ([{name: r[name] for name in kept} for r in rows] for rows in (some, others))
    rows = [*some, *others]
    alone, together = partition(some), partition(rows)
    prompts = {(r["group"], r["prompt"]) for r in rows} if kept == ("group", "prompt") else set()
    is_refused = len(prompts) > len({group for group, _ in prompts})  # one group with two prompts
    assert (together is None) == is_refused
    first = set(range(len(some)))
    if together is not None:
        assert all(alone[i] == together[i] & first for i in first)


def test_one_id_with_two_prompts_is_refused_and_both_rows_are_named():
    def rows(*prompts):
        return [{"prompt_id": "q", "prompt": prompt, "response": str(i)} for i, prompt in enumerate(prompts)]

    with pytest.raises(InvalidInput, match=r"row 3: the prompt of group 'q' must be the same .* row 1 has"):
        read_groups(rows("p", "p", "r"))
    with pytest.raises(InvalidInput, match=r"row 3: the prompt of group 'q' must be the same .* row 2 has"):
        read_groups(rows(None, "p", [{"role": "user", "content": "p"}, {"role": "user", "content": "r"}]))
    chat = [{"role": "user", "content": "p"}]
    assert len(read_groups(rows("p", None, chat, ""))[0].rollouts) == 4  # the same prompt in two forms, or none
    two = [Rollout(prompt=prompt, response="a", metadata={"group": "g"}) for prompt in "pr"]
    with pytest.raises(InvalidInput, match=r"rollout 1: the prompt of group 'g' .* rollout 0 has"):
        read_groups(two)
    steps = [{**row, "step": i} for i, row in enumerate(rows("p", "r"))]
    assert len(read_groups(steps)) == 2  # in different steps these are different groups


@pytest.mark.parametrize("name", ["rollout", "rollout_id", "response_id", "completion_id"])
def test_a_rollout_that_is_there_twice_is_refused(name):
    rows = [{"prompt_id": "q", "prompt": "p", name: number, "response": f"r{number}"} for number in (0, 1, 0)]
    message = rf"row 3: the rollout must be there once; got {name} 0 of row 1 again, in group 'q'"
    with pytest.raises(InvalidInput, match=message):
        read_groups(rows)
    rows[2]["response"] = "something else"
    with pytest.raises(InvalidInput, match="row 3: the rollout must be there once"):
        read_groups(rows)
    assert len(read_groups(rows[:2])[0].rollouts) == 2
    same = [{**row, name: 7} for row in rows]  # it names the query
    assert len(read_groups(same)[0].rollouts) == 3
