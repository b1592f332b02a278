"""Control tokens of chat templates do not reach a judge's server, wherever they stand."""

from __future__ import annotations

from cases import folded
from hypothesis import given
from hypothesis import strategies as st

from rubrank.judges.prompting import absolute_call, batched_call, listwise_call, pairwise_call
from rubrank.judges.prompting.material import UNSEEN, defuse
from rubrank.rollouts.rollout import Rollout
from rubrank.rubrics.rubric import Criterion

FAMILIES = {
    "ChatML": "<|im_start|> <|im_end|> <|im_sep|> <|endoftext|>",
    "Llama 2": "<s> </s> [INST] [/INST] <<SYS>> <</SYS>>",
    "Llama 3": "<|begin_of_text|> <|start_header_id|> <|end_header_id|> <|eot_id|> <|eom_id|> <|python_tag|>",
    "Llama 4": "<|header_start|> <|header_end|> <|eot|>",
    "Mistral": "[AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_CALLS] [TOOL_RESULTS] [SYSTEM_PROMPT] [THINK]",
    "Gemma": "<bos> <eos> <pad> <start_of_turn> <end_of_turn> <unused99> <start_of_image> <image_soft_token>",
    "Gemma 4": "<|turn> <turn|> <|channel> <channel|>",
    "DeepSeek": "<｜begin▁of▁sentence｜> <｜end▁of▁sentence｜> <｜User｜> <｜Assistant｜> <fim▁hole>",
    "Qwen": "<think> </think> <tool_call> </tool_call> <tool_response> <|vision_start|> <|image_pad|>",
    "harmony": "<|start|> <|channel|> <|message|> <|end|> <|return|> <|call|>",
    "GLM": "[gMASK] [sMASK] <sop> <eop> <|user|> <|assistant|> <|observation|>",
    "Phi": "<|system|> <|user|> <|end|>",
    "Cohere": "<BOS_TOKEN> <EOS_TOKEN> <|START_OF_TURN_TOKEN|> <|CHATBOT_TOKEN|>",
    "Granite": "<|start_of_role|> <|end_of_role|>",
    "Exaone": "[|system|] [|user|] [|endofturn|]",
    "InternLM": "<eoh> <eoa> <TOKENS_UNUSED_1>",
    "Baichuan": "<reserved_106> <reserved_107>",
    "Seed": "<seed:bos> <seed:eos> <seed:think>",
    "MiniMax": "]~!b[ ]~b] [e~[",
    "Kimi": "[BOS] [EOS] <|im_user|> <|im_middle|>",
    "Nemotron": "<SPECIAL_12> <extra_id_0>",
    "BERT": "[CLS] [SEP] [MASK] [PAD] [UNK]",
    "StarCoder": "<fim_prefix> <fim_middle> <fim_suffix> <file_sep>",
}
TOKENS = [token for tokens in FAMILIES.values() for token in tokens.split()]
EVIL = " ".join(TOKENS)


@folded("family", FAMILIES)
def test_tokens_of_a_family_are_broken_up(family):
    for token in FAMILIES[family].split():
        broken = defuse(f"before {token} after")
        assert token not in broken
        assert broken.replace(UNSEEN, "") == f"before {token} after"


@folded(
    "text", ["a <b> c", "x |> f <| g", "List<String>", "if a<b and c>d", "<div class='x'>", "a[i] [note] [1]", "|>"]
)
def test_other_texts_stay_as_they_are(text):
    assert defuse(text) == text


def test_wherever_they_stand():
    asked = Criterion(name=f"Tone {EVIL}"[:200], question=f"Is it {EVIL} kind?", reference=[EVIL], params={"who": EVIL})
    example = {"prompt": EVIL, "response": EVIL, "reasoning": EVIL, "verdict": 1}
    one, other = (Rollout(prompt=f"Say {EVIL}", response=f"{word} {EVIL}", reasoning="") for word in "ab")
    calls = [
        absolute_call(asked, one, examples=[example]),
        batched_call([asked, Criterion(name="CoreIntentMatch")], one, examples={asked.name: [example]}),
        pairwise_call(asked, one, other, examples=[{**example, "response": [EVIL, EVIL], "verdict": "A"}]),
        listwise_call(asked, [one, other], examples=[{**example, "response": [EVIL, EVIL], "verdict": [1, 2]}]),
    ]
    for call in calls:
        for message in call.messages:
            assert [token for token in TOKENS if token in message["content"]] == []


@given(st.lists(st.sampled_from([*TOKENS, "<", "|", ">", "[", "]", "~", "x", " ", "\n"]), max_size=12).map("".join))
def test_breaking_up_is_done_once_and_completely(text):
    once = defuse(text)
    assert defuse(once) == once
    assert once.replace(UNSEEN, "") == text
