import pytest
from cases import folded
from pydantic import ValidationError

from rubrank.errors import InvalidInput
from rubrank.rollouts.rollout import Group, Message, Rollout, ToolCall, make_rollout

FLAT = {"name": "search", "arguments": {"q": "lake"}, "id": "a"}
NESTED = {"id": "a", "type": "function", "function": {"name": "search", "arguments": {"q": "lake"}}}


def assistant(content="", **fields):
    return {"role": "assistant", "content": content, **fields}


def tool(content, **fields):
    return {"role": "tool", "content": content, **fields}


def test_a_text_prompt_is_a_message_of_the_user():
    rollout = Rollout(prompt="Name a lake.", response="West Lake.")
    assert rollout.prompt == (Message(role="user", content="Name a lake."),)
    assert (rollout.question, rollout.turns) == ("Name a lake.", ())
    assert (rollout.answer, rollout.thoughts, rollout.text.raw) == ("West Lake.", "", "West Lake.")


def test_a_chat_has_a_last_question_and_earlier_turns():
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        assistant("Hello."),
        {"role": "user", "content": "Name a lake."},
    ]
    rollout = Rollout(prompt=chat, response="West Lake.")
    assert rollout.question == "Name a lake."
    assert rollout.turns == ("Hello.",)


def test_without_a_prompt_there_is_no_question():
    assert Rollout(response="x").question == ""


@pytest.mark.parametrize("tags", ["<think>{}</think>", "<thinking>{}</thinking>"])
def test_reasoning_in_tags(tags):
    rollout = Rollout(response=tags.format("A lake…") + "West Lake.")
    assert (rollout.thoughts.strip(), rollout.answer.strip()) == ("A lake…", "West Lake.")
    assert rollout.text.raw == rollout.answer


def test_reasoning_in_a_field_leaves_the_response_alone():
    rollout = Rollout(response="<think>a tag</think>", reasoning="A lake…")
    assert (rollout.thoughts, rollout.answer) == ("A lake…", "<think>a tag</think>")
    assert Rollout(response="<think>a tag</think>", reasoning="").answer == "<think>a tag</think>"


def test_a_completion_of_messages_is_its_last_text():
    rollout = Rollout(prompt=[{"role": "user", "content": "Hi"}], response=[assistant("Hello.")])
    assert (rollout.response, rollout.tool_calls) == ("Hello.", ())
    assert Rollout(response=[{"content": "no role"}]).response == "no role"
    assert Rollout(response=[]).response == ""
    assert Rollout(response=[assistant(None)]).response == ""


def test_a_message_may_carry_its_reasoning_and_the_rollouts_own_comes_first():
    messages = [assistant("West Lake.", reasoning_content="A lake…")]
    assert Rollout(response=messages).thoughts == "A lake…"
    assert Rollout(response=messages, reasoning="mine").thoughts == "mine"
    assert Rollout(response=[assistant("<think>hm</think>So.")]).thoughts.strip() == "hm"


@pytest.mark.parametrize("call", [FLAT, NESTED])
def test_tool_calls_of_both_shapes(call):
    (found,) = Rollout(response=[assistant(tool_calls=[call])]).tool_calls
    assert found == ToolCall(name="search", arguments={"q": "lake"}, id="a")
    assert (found.result, found.error) == (None, False)


def test_tool_calls_given_with_a_text():
    rollout = Rollout(response="", tool_calls=[{"name": "search", "arguments": "not {json"}])
    assert rollout.tool_calls[0].arguments == "not {json"


def test_results_belong_to_the_calls_that_they_name():
    messages = [
        assistant(tool_calls=[{**FLAT, "id": "a"}, {**FLAT, "id": "b"}]),
        tool("second", tool_call_id="b"),
        tool("first", tool_call_id="a"),
        assistant("Done."),
    ]
    rollout = Rollout(response=messages)
    assert [(call.id, call.result) for call in rollout.tool_calls] == [("a", "first"), ("b", "second")]
    assert rollout.response == "Done."


def test_ids_that_start_again_in_every_turn():
    first, second, third = ({"name": name, "id": "call_0"} for name in ("one", "two", "three"))
    messages = [
        assistant(tool_calls=[first]),
        tool("first", tool_call_id="call_0"),
        assistant(tool_calls=[second]),
        tool("second", tool_call_id="call_0", is_error=True),
        assistant(tool_calls=[third]),
    ]
    calls = Rollout(response=messages).tool_calls
    assert [(call.result, call.error) for call in calls] == [("first", False), ("second", True), (None, False)]
    # A call with a result of its own does not leave its message to the next call.
    given = Rollout(response=messages, tool_calls=[{**first, "result": "mine"}, second]).tool_calls
    assert [call.result for call in given] == ["mine", "second"]


@pytest.mark.parametrize("calls", [5, True, "search", {"name": "search"}])
def test_tool_calls_of_a_message_that_are_no_list_are_refused(calls):
    with pytest.raises(InvalidInput, match="tool_calls"):
        make_rollout({"response": [assistant("Done.", tool_calls=calls)]}, "row 1")


@pytest.mark.parametrize("own", [{}, {"id": "a"}])
@pytest.mark.parametrize("named", [{}, {"tool_call_id": "of another system"}])
def test_results_that_name_no_known_call_come_in_order(own, named):
    calls = [{"name": "one", **own}, {"name": "two"}]
    messages = [
        assistant(tool_calls=calls[:1]),
        tool("first", **named),
        assistant(tool_calls=calls[1:]),
        tool("second", **named),
        assistant("Done."),
    ]
    assert [call.result for call in Rollout(response=messages).tool_calls] == ["first", "second"]


def test_calls_without_results_and_results_without_calls():
    three = Rollout(response=[assistant(tool_calls=[FLAT, {"name": "b"}, {"name": "c"}]), tool("x", tool_call_id="a")])
    assert [call.result for call in three.tool_calls] == ["x", None, None]
    assert Rollout(response=[tool("stray"), assistant("Done.")]).tool_calls == ()


@pytest.mark.parametrize("mark", [{"is_error": True}, {"error": "timeout"}, {"status": "error"}])
def test_a_failed_tool_message_marks_its_call(mark):
    messages = [assistant(tool_calls=[NESTED, {"name": "b"}]), tool("no", tool_call_id="a", **mark), tool("yes")]
    assert [(c.result, c.error) for c in Rollout(response=messages).tool_calls] == [("no", True), ("yes", False)]


def test_calls_given_apart_win_and_keep_the_results_they_have():
    messages = [assistant(tool_calls=[FLAT]), tool("from the message", tool_call_id="a")]
    given = [{**FLAT, "result": "its own"}]
    assert Rollout(response=messages, tool_calls=given).tool_calls[0].result == "its own"
    call = ToolCall(name="other")
    assert Rollout(response=messages, tool_calls=[call]).tool_calls == (call,)


def test_another_answer_leaves_the_rest_and_the_first_rollout_alone():
    first = Rollout(prompt="Why?", response="<think>hm</think>a", tool_calls=[FLAT], metadata={"id": 1})
    assert first.text.raw == "a"  # kept with the rollout
    other = first.replace_answer("<think>b</think>")
    assert (other.answer, other.text.raw, other.thoughts) == ("<think>b</think>", "<think>b</think>", "hm")
    assert (other.prompt, other.tool_calls, other.metadata) == (first.prompt, first.tool_calls, first.metadata)
    assert first.answer == "a"


@pytest.mark.parametrize("field", ["response", "prompt", "metadata"])
def test_a_rollout_is_frozen(field):
    with pytest.raises(ValidationError, match="frozen"):
        setattr(Rollout(response="x"), field, "y")


@folded(
    "data",
    [
        {},
        {"response": None},
        {"response": 7},
        {"response": "x", "answer": "y"},
        {"response": "x", "prompt": [{"role": "robot", "content": "x"}]},
    ],
)
def test_what_is_no_rollout_is_refused(data):
    with pytest.raises(ValidationError):
        Rollout(**data)


def test_a_group_holds_its_rollouts_and_is_frozen():
    group = Group(id="q", rollouts=[Rollout(response="a"), {"response": "b"}])
    assert [rollout.answer for rollout in group.rollouts] == ["a", "b"]
    with pytest.raises(ValidationError, match="frozen"):
        group.id = "other"
