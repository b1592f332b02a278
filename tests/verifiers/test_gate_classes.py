"""Classes of failures that gates catch, several members of each in several languages; and what looks like them."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest
from cases import folded, spread

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.shared.answer_languages import find_request
from rubrank.verifiers.verifier import find_verifier

ANSWERS = Path(__file__).parents[3] / "shared" / "data" / "good_answers" / "answers.jsonl.gz"
LONG = {"en": "It was a long day in the hills. ", "zh": "山里的一天很长。"}


def value(name, response, prompt="", **fields):
    verifier = find_verifier(name)
    return verifier.verify(Rollout(response=response, prompt=prompt, **fields), verifier.check_parameters({})).value


EMPTY = [
    "<!-- hi -->",
    "![](x)",
    "\\boxed{}",
    "$\\boxed{ }$",
    "<p></p>",
    "<div><br/></div>",
    "&nbsp;&nbsp;",
    "\u2800\u2800",
    "[Your answer here]",
    "[Insert text here]",
    "<your answer>",
    "（在此处填写答案）",
    "Your answer goes here.",
    "TODO",
    "Sure! Here is an explanation:",
    "Here's the list you asked for:",
    "Certainly! Below is a summary:",
    "好的，以下是解释：",
    "当然可以！下面是代码：",
    "# Introduction",
    "## Overview\n\n## Summary",
    "### 解答",
    "Answer:",
    "**Final answer:**",
    "答案：",
    "<answer></answer>",
    "```\n```",
    "---",
    "…",
    "\u200b",
    "<span hidden>text</span>",
]
NOT_EMPTY = [
    "[]",
    "{}",
    "''",
    '""',
    "?",
    "0",
    "No.",
    "是",
    "```json\n[]\n```",
    "Answer: 4",
    "\\boxed{4}",
    "<answer>x</answer>",
    "Here is the answer: 42.",
    "Sure, the capital is Paris.",
    "👍",
    "+",
    "<3",
    "∅",
    "# Title\n\nText.",
    "[1, 2]",
]


@folded("text", EMPTY)
def test_empty(text):
    assert value("EmptyAnswer", text, "Explain why the sky is blue.") == 0


@folded("text", NOT_EMPTY)
def test_not_empty(text):
    assert value("EmptyAnswer", text, "Which ones, if any?") == 1


CUT = [
    "| a | b | c |\n|---|---|---|\n| 1 | 2 | 3 |\n| 4 |",
    "1. Wash it.\n2. Dry it.\n3.",
    "- one\n- two\n- ",
    "1. A.\n2. **B",
    LONG["en"] + "We saw the river and the",
    LONG["en"] + "We took a boat because",
    LONG["zh"] + "我们坐船过河，因为",
    LONG["zh"] * 3 + "主要原因包括",
    '{"a": [1, 2',
    "```python\nx = 1",
    LONG["en"] + "There were many (as we saw in the",
    "1. We go up the hill first.\n2. We come down from it again.\n3. We re",
]
WHOLE = [
    LONG["en"] * 3 + "#Hills #Summer #Fun",
    LONG["zh"] * 3 + "\n关键词：山；河；船；夏天",
    LONG["en"] * 3 + "\n\nKeywords: a; b; c; d",
    LONG["en"] * 3 + "\n\nx = 2y + 3",
    LONG["en"] * 3 + "\n\nYours,\nAnna Smith",
    "- one\n- two\n- three",
    "- 公众参与\n- 社会和谐",
    "| a | b |\n|---|---|\n| 1 | 2 |",
    "Paris",
    "春眠不觉晓\n处处闻啼鸟",
    "* `f`: the file to read from",
    "https://example.org/a",
]


@folded("text", CUT)
def test_truncated(text):
    assert value("Truncated", text) == 0


@folded("text", WHOLE)
def test_not_truncated(text):
    assert value("Truncated", text) == 1
    assert value("Truncated", text, finish_reason="length") == 0


@pytest.mark.parametrize(
    "text", [LONG["en"] * 3 + "Then we all walked home in the rain", LONG["zh"] * 3 + "然后我们大家一起在雨里走回了家"]
)
def test_a_gate_that_is_unsure_abstains(text):
    assert value("Truncated", text) is None
    assert value("Truncated", text, finish_reason="stop") == 1


def counted(line: str, numbers=range(1, 31)) -> str:
    return "\n".join(line.format(i) for i in numbers)


LOOPS = [
    counted("Step {}: Check the cable and restart it."),
    " ".join(f"Fact {i}: the sun is hot." for i in range(40)),
    counted("第{}步：检查电缆并重新启动。", "一二三四五六七八九十")
    + "\n第十一步：检查电缆并重新启动。\n第十二步：检查电缆并重新启动。",
    "| a | b |\n|---|---|\n" + "| Alice Smith | Paris |\n" * 20,
    "| n | name |\n|---|---|\n" + counted("| {} | Alice Smith |"),
    "```\n" + "value = update(value)\n" * 40 + "```",
    "```\n" + counted('print("item {}")', range(40)) + "\n```",
    "a" + "\n" * 500 + "b",
    "Hi.\n" + " \n" * 200,
    "I am sorry. " * 30,
    "哈" * 200,
]
NO_LOOPS = [
    "\n".join(f"7 x {i} = {7 * i}" for i in range(20)),
    "\n".join(f"Week {i}: run {3 * i + 1} miles." for i in range(20)),
    "| 1 | 2 |\n" * 30,
    "```\n" + "0, 0, 0,\n" * 50 + "```",
    "\n".join(f"{i}. {w}" for i, w in enumerate("abcdefghijklmnop")),
    "One.\n\n\n\nTwo.",
]


@folded("text", LOOPS)
def test_loops(text):
    assert value("RepeatSegment", text, "Tell me.") == 0


@folded("text", NO_LOOPS)
def test_no_loops(text):
    assert value("RepeatSegment", text, "Tell me.") == 1


SAID = {
    "zh": "你好，世界。今天天气很好，我们去公园散步吧。",
    "fr": "Le café est très agréable, où êtes-vous allé après-midi ?",
    "ru": "Привет, как дела сегодня? Погода хорошая.",
    "en": "It’s what they’re saying — “don’t” isn’t it?",
    "de": "Die Tür ist schön grün, und die Bäume blühen früh im Jahr.",
    "ja": "今日は天気がいいので、川沿いを散歩します。",
}


@folded("encoding", ["gbk", "cp1252", "latin-1"])
@folded("code", SAID)
def test_utf8_read_as_something_else(code, encoding):
    text = SAID[code]
    assert value("GarbledText", text) == 1
    wrong = text.encode().decode(encoding, "ignore")
    assert value("GarbledText", f"{wrong} {wrong}") == 0


@folded(
    "text",
    [
        "\\u6c34\\u662f\\u751f\\u547d",
        "&#27700;&#26159;&#29983;",
        "<unk><pad></s>",
        "It is 4.</s>",
        "It is <unk> here.",
        "[PAD][PAD] It is so.",
        "ĠThe Ġcat Ġsat",
        "▁The▁cat▁sat",
        "This �� is � broken",
        "%E6%B0%B4 %E6%98%AF %E7%94%9F",
    ],
)
def test_garbled(text):
    assert value("GarbledText", text, "Tell me.") == 0


@folded("seed", range(5))
def test_random_letters(seed):
    rng = random.Random(seed)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randrange(4, 9))) for _ in range(60)]
    assert value("GarbledText", " ".join(words), "Tell me.") == 0
    assert value("GarbledText", " ".join(words), "Encrypt this with a random key.") == 1


LEAKS = [
    "analysisWe must answer.assistantfinalParis.",
    "**Thinking Process:**\n1. Look.\n\nParis.",
    "Thinking process: look. Paris.",
    "User asks: the capital. Plan: say it. Paris.",
    "首先，我需要弄清楚题目。巴黎。",
    "嗯，这道题问首都。巴黎。",
    "思考过程：先想。巴黎。",
    "Thought: search.\nAction: search[x]\nParis.",
    "Okay, so I need to find the capital. Paris.",
    "Hmm, let me think. Paris.",
    "First, I need to figure out what is asked. Paris.",
    "<think>Paris?",
    "Paris.</think>Paris.",
    "好的，我需要先理解题意。巴黎。",
    "The user wants the capital. Paris.",
    "用户想知道首都。巴黎。",
]
NO_LEAKS = [
    "Let me explain: it is Paris.",
    "首先，我们需要知道法国的首都。是巴黎。",
    "First, preheat the oven.",
    "Okay, here is the plan: go.",
    "好的，我来帮你。是巴黎。",
    "To begin, note that Paris is large.",
    "Sure! It is Paris.",
    "The analysis shows that it is Paris.",
]


@folded("text", LEAKS)
def test_leaks(text):
    given = {} if "think>" not in text else {"reasoning": ""}
    assert value("ThinkLeak", text, "What is the capital of France?", **given) == 0


@folded("text", NO_LEAKS)
def test_no_leaks(text):
    assert value("ThinkLeak", text, "What is the capital of France?") == 1


# ------------------------------------------------------------------------------------------------------------ languages

ENGLISH = "Plants turn the light of the sun into chemical energy, which they store as sugar in their leaves."
FRENCH = "Les plantes transforment la lumière du soleil en énergie chimique, qu'elles stockent dans leurs feuilles."
CHINESE = "植物把太阳的光变成化学能，并把它作为糖储存在叶子里，这个过程叫做光合作用。"
ASKS_FRENCH = [
    "Explain photosynthesis in French.",
    "Use only French in your response. What is photosynthesis?",
    "请用法语解释光合作用。",
    "Your answer must be entirely in the French language. What is photosynthesis?",
    "フランス語で光合成を説明してください。",
    "Describe photosynthesis, in French please",
    "In French, explain photosynthesis.",
    "写一篇法语文章介绍光合作用。",
    "광합성을 프랑스어로 설명해 주세요.",
    "Explica la fotosíntesis en francés.",
    "Erkläre die Photosynthese auf Französisch.",
]


@folded("prompt", ASKS_FRENCH)
def test_a_language_that_is_asked_for(prompt):
    assert find_request(prompt).asked == {"fr"}
    for name in ("WrongLanguage", "LanguageDetection"):
        assert value(name, FRENCH, prompt) == 1
        assert value(name, ENGLISH, prompt) == 0
        assert value(name, CHINESE, prompt) == 0
        assert value(name, f"```\n{ENGLISH}\n{ENGLISH}\n```", prompt) == 0


@pytest.mark.parametrize(
    "prompt",
    [
        "如果答案是肯定的，请翻译为法语；否则请用中文解释光合作用。",
        "先用中文解释光合作用，然后翻译成法语。",
        "什么是光合作用？法语怎么说？",
        "若正确，则用法语回答，若不正确，请说明理由。",
    ],
)
def test_a_language_that_is_only_possible(prompt):
    for text in (FRENCH, CHINESE):
        assert value("WrongLanguage", text, prompt) != 0
        assert value("LanguageDetection", text, prompt) != 0


@folded(
    "prompt",
    [
        "A plan for a week in Lisbon",
        "Make a table of prime numbers",
        "Write me a 2000 word essay on a water project.",
        "int f(int n) {\n  return f(n - 1) + f(n - 2);\n}\nwhat does it do",
        "Tell me a joke",
        "Résumé tips?",
    ],
)
def test_short_english_prompts(prompt):
    assert value("WrongLanguage", ENGLISH, prompt) in (1, None)
    assert value("WrongLanguage", CHINESE, prompt) == 0


@pytest.mark.parametrize(
    "prompt", ["経済産業省、新制度発表。要約。", "明日東京駅集合、持物一覧", "光合作用とは何ですか。", "光合成、説明求"]
)
def test_japanese_in_characters_alone(prompt):
    answer = "植物は太陽の光を使って、水と二酸化炭素から糖を作ります。これを光合成といいます。"
    assert value("WrongLanguage", answer, prompt) == 1


@pytest.mark.parametrize(
    "text",
    [
        "The results show that the 模型 performs well on all tasks.",
        "We then move to the следующий step of the plan today.",
        "You can use the วิธีการ method here to get it done.",
        "It is a 문제 that we can solve with ease today.",
    ],
)
def test_a_stray_word(text):
    assert value("WrongLanguage", f"{ENGLISH} {text}", "How well does it do on the tasks?") == 0


@pytest.mark.parametrize(
    "text",
    [
        'The word "模型" means model, and it is common.',
        "Tea (茶) is a drink that people like.",
        "He is called Лев Толстой.",
        "The city of *東京* is large and lively.",
    ],
)
def test_a_word_that_is_set_apart(text):
    assert value("WrongLanguage", f"{ENGLISH} {text}", "How well does it do on the tasks?") == 1


# -------------------------------------------------------------------------------------------------------- good answers

LIMITS = {
    "EmptyAnswer": 0.001,
    "Truncated": 0.003,
    "RepeatSegment": 0.001,
    "GarbledText": 0.001,
    "ThinkLeak": 0.001,
    "WrongLanguage": 0.001,
    "Verbosity": 0.005,
    "RoboticTemplate": 0.005,
    "LanguageDetection": 0.005,
}


@pytest.mark.slow
@pytest.mark.skipif(not ANSWERS.exists(), reason="needs ../shared/data")
@pytest.mark.parametrize("name", LIMITS)
def test_good_answers_are_let_through(name):
    """Truncated: 16 of the 7,954 were really cut off, as their code fences show."""
    verifier = find_verifier(name)
    run = verifier.bind(verifier.check_parameters({}))
    with gzip.open(ANSWERS, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in spread(list(lines))]
    stopped = sum(run(Rollout(prompt=row["prompt"], response=row["response"]))[0] == 0 for row in rows)
    assert stopped <= LIMITS[name] * len(rows)


# ------------------------------------------------------------------------------------- what was once stopped by mistake


@folded(
    ("name", "text", "prompt"),
    [
        (
            "RepeatSegment",
            "[" + ", ".join(f'get_weather(city="{c}", unit="celsius", days=3)' for c in "ABCDEFGHIJKLMN") + "]",
            "Weather?",
        ),
        (
            "RepeatSegment",
            "\n".join(f"{i}. {'TRUE' if i % 3 else 'FALSE'}" for i in range(1, 31)),
            "Mark the statements.",
        ),
        ("GarbledText", "يستخدم الـGoogle والـAPI وبـPython والـLinux في العمل كل يوم. هذا الـServer جديد.", "ما هذا؟"),
        (
            "ThinkLeak",
            "Hmm, let me think. I need to find the key before the guards come back.",
            "Write an inner monologue.",
        ),
        (
            "WrongLanguage",
            "House Resolution 7004 byla předložena 14. března 2022.",
            "Kdy byla předložena House Resolution 7004?",
        ),
        ("Verbosity", "Use a loop over all the numbers. " * 12, "Write a program. Print the answer in one line."),
        ("ImproperWording", "“Bullshit,” said the captain.", "Write a short story about a captain."),
    ],
)
def test_a_gate_does_not_stop(name, text, prompt):
    assert value(name, text, prompt) != 0


def test_rules_of_the_system_prompt_may_forbid_the_language_that_the_user_asks_for():
    rules = {"role": "system", "content": "你只能用中文回答所有问题，不使用其他语言。"}
    question = {"role": "user", "content": "Explain photosynthesis in English."}
    assert value("WrongLanguage", CHINESE, [rules, question]) != 0


def test_a_language_named_in_the_material_is_not_asked_for():
    material = "The letter was written in French by a soldier. " + ENGLISH + "\n\n"
    prompt = "Summarise the text below.\n\n" + material * 40 + "Write your summary in two sentences."
    assert value("WrongLanguage", ENGLISH, prompt) != 0


PARAGRAPH = "This paragraph is long enough. Nobody would write it again and again in an answer, and mean it. " * 2


@folded(
    "text",
    [
        "The cat sat. The dog ran off. " * 4,
        " ".join(["We go up the hill.", "We go up the road.", "We go up the stairs."][i * i % 3] for i in range(12)),
        "Some text first.\n\n" + f"{PARAGRAPH}\n\n" * 3,
    ],
)
def test_loops_of_sentences(text):
    assert value("RepeatSegment", text, "Tell me.") == 0


@folded(
    "text",
    [
        "Of course! I'd be happy to help you with that.",
        "undefined",
        "[no response]",
        "Claro, aquí tienes la respuesta:",
        "Natürlich! Hier ist die Antwort.",
        "もちろんです！以下が回答です。",
        "The next three parts of the plan are these:",
    ],
)
def test_answers_that_say_nothing(text):
    assert value("EmptyAnswer", text, "Explain how a plan like this is made, with an example.") == 0


@folded("text", ["The answer is (A).", "None", "Okay.", "😊👍"])
def test_short_answers_that_may_be_all_that_was_asked_for(text):
    assert value("EmptyAnswer", text, "Which one is it?") != 0


@folded(
    "text",
    [
        "We need to answer the question about tides. Tides come from the moon.",
        "El usuario quiere saber algo. Las mareas vienen de la luna.",
        "Der Nutzer fragt nach den Gezeiten. Sie kommen vom Mond.",
        "ユーザーは潮の満ち引きについて知りたがっています。月が原因です。",
        "Tides come from the moon. [/INST] And why?",
        "Tides come from the moon.\n\n### Human: And why?\n### Assistant: Because.",
        "Tides come from the moon.\n\nUser: And why?\n\nAssistant: Because.",
        "Tides.<|im_end|>\n<|im_start|>user\nwhy",
    ],
)
def test_leaks_of_thinking_and_of_turns(text):
    assert value("ThinkLeak", text, "Where do tides come from?") == 0


@folded(
    "text",
    [
        "Let me check that for you: tides come from the moon.",
        "Users see tides twice a day.",
        "To answer the question, tides come from the moon.",
        "Okay, here is why you see tides.",
    ],
)
def test_answers_that_speak_to_the_user(text):
    assert value("ThinkLeak", text, "Where do tides come from?") == 1


def test_a_request_that_is_to_be_repeated_may_be_named():
    prompt = "Name a company. Let's repeat the request above first."
    assert value("ThinkLeak", "Okay, let's repeat the request: name a company. Wavelength.", prompt) == 1


def _write_calls(paths):
    text = "I will look at them."
    for path in paths:
        arguments = {"path": path, "mode": "read", "encoding": "utf-8"}
        text += f"\n<tool_call>\n{{'name': 'fetch_record', 'arguments': {arguments}}}\n</tool_call>"
    return text


def test_parallel_calls_between_tags_are_no_loop_unless_they_are_the_same():
    assert value("RepeatSegment", _write_calls("abcdefgh")) == 1
    assert value("RepeatSegment", _write_calls("aaaaaaaa")) == 0
