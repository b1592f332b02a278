"""OpenRLHF, slime and NeMo Gym, one sample a call: siblings meet, and nobody is answered twice in different ways."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest
from service.service_calls import nemo_gym, openrlhf, slime
from service.serving import RUBRIC, serving

from rubrank import Group, InvalidInput, RewardEngine, Rollout, read_records
from rubrank.service.requests import SampleKeys

SAID = [
    "The moon pulls the water. Tides follow it.",
    "Moon.",
    "Tides rise because the moon pulls. It is so.",
    "Yes it is.",
]
PROMPT = "<|user|>Explain tides.<|assistant|>"


def alone(said=SAID, prompt=PROMPT, rubric=RUBRIC, **options):
    group = Group(id="g", rollouts=tuple(Rollout(prompt=prompt, response=text) for text in said))
    # Samples come in any order, and the last bit of a reward may depend on it; another test looks at all bits.
    return pytest.approx(list(RewardEngine(rubric, **options).score([group], 0).rewards[0]), abs=1e-12)


def approx(values):
    return pytest.approx(values, abs=1e-12)


async def ask_slime(url, said=SAID, prompt=PROMPT, order=None, **more):
    async with aiohttp.ClientSession() as session:
        calls = [slime(session, url, {"prompt": prompt, "response": text, "label": "x", **more}) for text in said]
        order = order or range(len(calls))
        found = await asyncio.gather(*(calls[i] for i in order))
    return [dict(zip(order, found, strict=True))[i] for i in range(len(said))]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("dialects"), records="records.jsonl", deadline=2.0) as found:
        yield found


def test_openrlhf_gets_the_rewards_of_the_group(served):
    async def main():
        calls = (openrlhf(served.url, PROMPT + text + "<|im_end|>", PROMPT, "tides") for text in SAID)
        return await asyncio.gather(*calls)

    found = asyncio.run(main())
    assert [one["rewards"][0] for one in found] == alone()
    assert all(one["scores"] == one["rewards"] for one in found)
    assert {frozenset(one["extra_logs"]) for one in found} == {frozenset(found[0]["extra_logs"])}
    assert [one["extra_logs"]["rubrank/incomplete"] for one in found] == [[0.0]] * 4


def test_openrlhf_may_send_several_or_none(served):
    batch = {"query": [PROMPT + "?" + text for text in SAID], "prompts": [PROMPT + "?"] * 4, "labels": [None] * 4}
    status, answer, _ = served.call("/openrlhf", batch)
    assert status == 200
    assert answer["rewards"] == alone()
    assert served.call("/openrlhf", {"query": [], "prompts": [], "labels": []})[1]["rewards"] == []


def test_what_openrlhf_decodes_is_cut_to_the_response():
    from rubrank.service.config import END_TOKENS
    from rubrank.service.requests import split_query

    assert split_query("p said<|im_end|>\n<|endoftext|>", "p ", END_TOKENS) == ("said", "stop")
    assert split_query("<s>p said", "p ", END_TOKENS) == ("said", None)
    assert split_query("p ", "p ", END_TOKENS) == ("", None)


def test_a_query_without_its_prompt_is_refused(served):
    status, answer, _ = served.call("/openrlhf", {"query": ["other text"], "prompts": ["Explain"], "labels": [""]})
    assert status == 422
    assert answer["error"]["what"] == "query"


def test_slime_gets_a_number_in_any_order(served):
    assert asyncio.run(ask_slime(served.url, prompt="slime", order=[3, 1, 0, 2])) == alone()


def test_slime_gets_an_object_with_reward_key(served):
    async def main():
        async with aiohttp.ClientSession() as session:
            bodies = ({"prompt": "o", "response": text, "label": None} for text in SAID)
            return await asyncio.gather(*(slime(session, served.url, b, path="/slime?form=object") for b in bodies))

    found = asyncio.run(main())
    assert [one["reward"] for one in found] == alone()
    assert all(one["complete"] for one in found)
    assert found[1]["scores"]["WordCount"] == 0.0


def test_labels_bring_rubrics_and_prompts(served):
    label = json.dumps({"prompt": "Explain tides.", "rubric": [{"name": "Truncated"}], "answer": "moon"})
    found = asyncio.run(ask_slime(served.url, prompt="<|templated|>", label=label))
    assert len(found) == 4
    record = list(read_records(served.folder / "records.jsonl"))[-1]
    assert record.prompt is not None
    assert record.prompt[0]["content"] == "Explain tides."
    assert "Truncated" in [criterion.name for criterion in record.criteria]


def test_nemo_gym_gets_components(served):
    assert served.call("/seed_session", {})[:2] == (200, {})

    async def main():
        async with aiohttp.ClientSession() as session:

            async def verify(text):
                async with session.post(served.url + "/verify", json=nemo_gym("gym", text, task="t")) as response:
                    return await response.json()

            return await asyncio.gather(*map(verify, SAID))

    found = asyncio.run(main())
    assert [one["reward"] for one in found] == alone()
    assert found[1]["reward_components"]["WordCount"] == 0.0
    assert found[0]["task"] == "t"
    assert found[0]["mask_sample"] is False
    assert "failure_kind" not in found[0]


def test_nemo_gym_begins_and_ends_sessions(served):
    """Its environment servers want a cookie, and the id that they gave."""
    session = {"resources_session_id": "s 7", "episode_id": {"rollout_id": "3-1"}}
    status, told, headers = served.call("/seed_session", session)
    assert (status, told) == (200, {"resources_session_id": "s 7"})
    assert headers["set-cookie"].startswith("rubrank_session=s%207;")
    assert served.call("/close_session", session)[:2] == (200, {"resources_session_id": "s 7"})
    rows = [{"_ng_task_index": 0, "reward": reward, "reward_components": {"Facts": reward}} for reward in (1, 0)]
    told = served.call("/aggregate_metrics", {"verify_responses": rows})[1]
    assert (told["key_metrics"], told["agent_metrics"]["samples"]) == ({"mean/Facts": 0.5}, 2)
    assert served.call("/aggregate_metrics", {"verify_responses": 7})[0] == 422
    assert served.call("/reverify_mode")[:2] == (200, "unsupported")


def test_an_incomplete_group_is_scored_as_it_is_and_says_so(served):
    found = served.call("/verify", nemo_gym("short", SAID[0]))[1]
    assert found["failure_kind"] == "cohort_incomplete"
    assert found["mask_sample"] is False
    assert "1 of 4" in found["failure_reason"]
    headers = served.call("/slime", {"prompt": "short too", "response": SAID[0], "label": ""})[2]
    assert headers["x-rubrank-group"] == "incomplete 1/4"


def test_a_late_sibling_is_scored_within_the_whole_group(served):
    async def main():
        first = await ask_slime(served.url, SAID[:3], prompt="late")
        return first, await ask_slime(served.url, SAID[3:], prompt="late")

    early, late = asyncio.run(main())
    assert early == alone(SAID[:3])
    assert late == approx(alone().expected[3:])


def test_repeated_calls_get_the_same_answer_without_a_new_group(served):
    first = asyncio.run(ask_slime(served.url, prompt="repeat"))
    status, again, headers = served.call("/slime", {"prompt": "repeat", "response": SAID[1], "label": "x"})
    assert (status, again) == (200, first[1])
    # A call that waited for three siblings would be scored in a group of its own, as "incomplete 1/4".
    assert "incomplete" not in headers.get("x-rubrank-group", "")


def test_a_call_that_timed_out_takes_its_place_again(served):
    """The first try of one sample is cut off while it waits: it is no further sibling."""

    async def main():
        with pytest.raises(asyncio.TimeoutError):
            async with asyncio.timeout(0.3):
                await ask_slime(served.url, SAID[:1], prompt="cut off")
        return await ask_slime(served.url, prompt="cut off")

    assert asyncio.run(main()) == alone()


def test_the_same_text_twice_is_two_samples(served):
    said = [SAID[0], SAID[1], SAID[1], SAID[2]]
    assert asyncio.run(ask_slime(served.url, said, prompt="twins")) == alone(said)


def test_another_epoch_of_the_same_prompt_is_a_new_group(served):
    async def main():
        first = await ask_slime(served.url, prompt="epochs")
        new = ["New one. It is new.", "Other one here.", "Third.", "A fourth one. It is long."]
        return first, new, await ask_slime(served.url, new, prompt="epochs")

    first, new, second = asyncio.run(main())
    assert first == alone()
    assert second == alone(new)


def test_ids_leave_no_doubt(served):
    """Two groups of one prompt at the same time, and samples that are named."""

    async def main():
        one = ask_slime(served.url, prompt="same", group_id="a")
        other = ask_slime(served.url, list(reversed(SAID)), prompt="same", group_id="b")
        return await asyncio.gather(one, other)

    one, other = asyncio.run(main())
    assert one == alone()
    assert other == approx(list(reversed(alone().expected)))


@pytest.mark.parametrize("more", [{"group_id": "period"}, {}])
@pytest.mark.parametrize("other", [{"step": 2}, {"step": 1, "train": False}])
def test_steps_and_evaluations_never_share_a_group(served, more, other):
    """A trainer that numbers its groups anew in each step, or evaluates on the prompts that it trains on."""

    async def main():
        prompt = f"{more} {other}"
        async with aiohttp.ClientSession() as session:

            def call(text, period):
                return slime(session, served.url, {"prompt": prompt, "response": text, "label": "x", **period, **more})

            calls = []
            for text in SAID:
                calls += [call(text, {"step": 1}), call(text, other)]
            rewards = await asyncio.gather(*calls)
        return rewards[::2], rewards[1::2]

    trained, others = asyncio.run(main())
    assert trained == alone()
    assert others == alone()


def test_named_samples_are_repeated_by_name(served):
    async def main():
        async with aiohttp.ClientSession() as session:

            def call(i, text):
                body = {"prompt": "n", "response": text, "label": "", "group_id": "named", "sample_id": i}
                return slime(session, served.url, body)

            first = asyncio.create_task(call(0, SAID[0]))
            await asyncio.sleep(0.2)
            return await asyncio.gather(first, *(call(i, text) for i, text in enumerate(SAID)))

    first, *others = asyncio.run(main())
    assert others == alone()
    assert first == others[0]


def test_sizes_must_agree(served):
    async def main():
        async with aiohttp.ClientSession() as session:

            async def post(size):
                body = {"prompt": "sizes", "response": f"Text {size}.", "label": "", "group_size": size}
                async with session.post(served.url + "/slime", json=body) as response:
                    return response.status, await response.json()

            first = asyncio.create_task(post(2))
            await asyncio.sleep(0.2)
            return await post(3), await post(2), await first

    (status, answer), (_, second), (_, first) = asyncio.run(main())
    assert status == 422
    assert answer["error"]["what"] == "group_size"
    assert second == first  # the very same sample, by its text, while its caller waits: another sample


def test_records_name_repeated_groups_apart_and_hold_the_rewards_of_the_engine_to_the_last_bit(served):
    records = list(read_records(served.folder / "records.jsonl"))
    assert len({record.group for record in records}) == len(records) > 5
    engine = RewardEngine(RUBRIC)
    for record in records:
        said = [Rollout(prompt=PROMPT, response=text) for text in record.responses or ()]
        if len(record.criteria) == len(RUBRIC):
            assert record.reward == engine.score([Group(id="g", rollouts=tuple(said))], 0).rewards[0]


@pytest.mark.parametrize(
    ("keys", "allowed"),
    [({"group_size": 0}, "≥ 1"), ({"step": -1}, "≥ 0"), ({"step": 2**63}, "≤ 9.22337e")],
)
def test_an_error_states_the_limit_of_its_key(keys, allowed):
    with pytest.raises(InvalidInput, match=allowed):
        SampleKeys.read(keys)


def test_score_takes_one_response(served):
    body = {"prompt": PROMPT, "response": SAID[0], "responses": SAID}
    status, answer, _ = served.call("/v1/score", body)
    assert status == 422
    assert (answer["error"]["what"], answer["error"]["allowed"]) == ("responses", "left out (unknown key)")


def test_without_a_size_one_is_asked_for(tmp_path):
    with serving(tmp_path, group_size=None) as found:
        status, answer, _ = found.call("/slime", {"prompt": "p", "response": "r", "label": ""})
    assert status == 422
    assert answer["error"]["what"] == "group_size"
    assert "group_size" in answer["error"]["remedy"]
