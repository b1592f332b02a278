"""A judge's own prompt: slots are filled, mistakes are told when the judge is read, the text is in the cache key."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from prompted import rollout
from scripted import Scripted, group, question, said

from rubrank.errors import InvalidInput
from rubrank.judges.client.cache import CallKeys
from rubrank.judges.judge import Judge, load_judges
from rubrank.judges.kinds.scores import Absolute
from rubrank.judges.prompting import absolute_call, batched_call, listwise_call, pairwise_call
from rubrank.judges.template import SLOTS, Template
from rubrank.rubrics.rubric import Criterion
from rubrank.training.config import load_config

ENDPOINT = {"base_url": "http://localhost:1/v1", "model": "m"}
OWN = "[system]\nYou grade our help desk.\n{criteria}\n{reply}\n[user]\n{conversation}\n{reference}\n{response}\n"
CLEAR = Criterion(name="Clear", question="Is it clear?", reference="The guide.")


def judge(prompt: str, **more: object) -> Judge:
    return load_judges({"endpoints": [ENDPOINT], "prompt": prompt, **more}).judges[0]


def test_slots_are_filled():
    call = batched_call([CLEAR], rollout("West Lake."), template=judge(OWN).prompt)
    system, user = (message["content"] for message in call.messages)
    assert system.startswith("You grade our help desk.\n## Questions")
    assert "Reply with one JSON object" in system
    assert "Name a lake in Hangzhou." in user
    assert "The guide." in user
    assert "West Lake." in user
    assert "strict and impartial" not in system, "nothing is added that no slot asks for"


def test_a_file_is_looked_for_beside_the_file_of_judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "conf"
    folder.mkdir()
    (folder / "own.txt").write_text(OWN, encoding="utf-8")
    (folder / "judges.yaml").write_text(json.dumps({"endpoints": [ENDPOINT], "prompt": "own.txt"}))
    monkeypatch.chdir(tmp_path)
    found = load_judges("conf/judges.yaml").judges[0].prompt
    assert found is not None
    assert found.text == OWN
    (folder / "panel.yaml").write_text(json.dumps({"members": [{"endpoints": [ENDPOINT], "prompt": "own.txt"}]}))
    assert load_judges(folder / "panel.yaml").judges[0].members[0].prompt.text == OWN
    (folder / "judges.yaml").write_text(json.dumps({"endpoints": [ENDPOINT], "prompt": "none.txt"}))
    with pytest.raises(InvalidInput, match=r"conf/none\.txt must be a file that can be read.* It is looked for beside"):
        load_judges("conf/judges.yaml")


def test_judges_that_stand_in_another_file_have_their_templates_beside_it(tmp_path: Path):
    (tmp_path / "own.txt").write_text(OWN, encoding="utf-8")
    given = {"endpoints": [ENDPOINT], "prompt": "own.txt"}
    assert load_judges(given, folder=tmp_path).judges[0].prompt.text == OWN
    rubric = {"criteria": [{"name": "Clear", "question": "Is it clear?"}]}
    (tmp_path / "rubrank.yaml").write_text(json.dumps({"rubric": rubric, "judges": given}))
    config, folder = load_config(tmp_path / "rubrank.yaml")
    engine = config.engine(folder)
    assert engine.judges.judges[0].prompt.text == OWN


def test_a_message_without_parts_is_the_users():
    call = absolute_call(CLEAR, rollout(), template=judge("{question}\n{anchors}\n{response}", kind="absolute").prompt)
    assert [message["role"] for message in call.messages] == ["user"]
    assert call.messages[0]["content"].startswith('Is it clear?\n1 ("holds"): It is so, entirely.')


@pytest.mark.parametrize(
    ("prompt", "kind", "said"),
    [
        ("{criteria}\n{reply}", "batched", "a text with {response}"),
        ("{response}\n{reply}", "batched", "a text with {criteria}"),
        ("{criteria}\n{response}", "batched", "a text with {reply}"),
        ("{criteria}\n{response}", "pairwise", "'response'"),
        ("{criteria}\n{response_a}", "pairwise", "a text with {responses} or {response_b}"),
        ("{criteria}\nHello", "listwise", "a text with {responses}"),
        ("{criteria}\n{respones}\n{reply}", "batched", "Did you mean 'response'"),
        ("{name}\n{criteria}\n{response}{reply}", "batched", "slot must be one of"),
        ("[user]\n{criteria}\n[user]\n{response}\n{reply}", "batched", "one [user] part"),
        ("Hi\n[user]\n{criteria}\n{response}\n{reply}", "batched", "no text before them"),
        ("[system]\n{criteria}\n{response}\n{reply}", "batched", "one [user] part"),
    ],
)
def test_mistakes_are_told_before_anything_is_spent(prompt, kind, said):
    with pytest.raises(InvalidInput) as error:
        judge(prompt, kind=kind)
    assert said in str(error.value)
    assert "judge 'judge'" in str(error.value)


def test_what_is_shown_is_never_taken_for_a_slot():
    template = judge('{question} {{name}} {"a": {x y}}\n{response}', kind="absolute").prompt
    asked = Criterion(name="A", question="Is {response} fine?")
    text = absolute_call(asked, rollout("Say {question}."), template=template).messages[0]["content"]
    assert text.startswith('Is {response} fine? {name} {"a": {x y}}')
    assert "Say {question}." in text


def test_a_number_in_braces_is_no_slot():
    template = judge("A year is [0-9]{4} or [0-9]{{2}}.\n{question}\n{response}", kind="absolute").prompt
    text = absolute_call(CLEAR, rollout(), template=template).messages[0]["content"]
    assert text.startswith("A year is [0-9]{4} or [0-9]{2}.\nIs it clear?")


def test_text_before_the_headers_is_quoted():
    with pytest.raises(InvalidInput, match="got 'Grade this answer:' before them"):
        judge("Grade this answer:\n[user]\n{criteria}\n{response}\n{reply}", kind="batched")


def test_the_text_is_part_of_the_key():
    one, two = judge(OWN), judge(OWN.replace("help desk", "shop"))
    calls = [batched_call([CLEAR], rollout(), template=each.prompt) for each in (one, two)]
    assert calls[0].prompt_version != calls[1].prompt_version
    assert CallKeys(one).key(calls[0]) != CallKeys(two).key(calls[1])
    assert "template" in calls[0].prompt_version


def test_all_kinds_fill_their_slots():
    pair = judge("{question}\n1. {response_a}\n2. {response_b}", kind="pairwise").prompt
    text = pairwise_call(CLEAR, rollout("first"), rollout("second"), template=pair).messages[0]["content"]
    assert text.index("first") < text.index("2. ") < text.index("second")
    many = judge("{criteria}\n{responses}", kind="listwise").prompt
    text = listwise_call(CLEAR, [rollout("first"), rollout("second")], template=many).messages[0]["content"]
    assert text.index("<response_1") < text.index("first") < text.index("<response_2")


def test_the_kind_asks_with_it_and_members_inherit_it():
    asker = Scripted(lambda shown: said(1))
    asyncio.run(Absolute().judge(question(group("r0")), judge("{question}\n{response}", kind="absolute"), asker))
    assert asker.calls[0].messages[0]["content"].startswith("Is it clear?")
    panel = Judge(prompt=OWN, members=(Judge(name="m", endpoints=(ENDPOINT,)),))
    assert panel.complete_members().members[0].prompt == panel.prompt


def test_control_tokens_of_a_template_are_broken_up_and_dumps_can_be_read():
    made = judge("{criteria}\n{response}\n{reply}\n<|im_end|>")
    text = batched_call([CLEAR], rollout(), template=made.prompt).messages[0]["content"]
    assert "<|im_end|>" not in text
    again = Judge.model_validate(made.model_dump(mode="json") | {"endpoints": [ENDPOINT]})
    assert again.prompt == made.prompt
    assert set(made.prompt.slots) <= set(SLOTS)
    assert Template(text="{{a}} {b}").slots == ("b",)
