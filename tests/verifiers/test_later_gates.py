"""Broken answers that outsiders found, and look-alikes that must pass: leaks, emptiness, stray words, loops of code."""

from __future__ import annotations

import pytest

from rubrank import Rollout, find_verifier


def judge(name, response, prompt, **params):
    gate = find_verifier(name)
    return gate.verify(Rollout(response=response, prompt=prompt), gate.check_parameters(params)).value


@pytest.mark.parametrize(
    ("prompt", "response"),
    [
        ("Quelle est la capitale du Pérou ?", "L'utilisateur demande la capitale du Pérou. C'est Lima.\n\nC'est Lima."),
        ("Who wrote Emma?", "The question is asking who wrote Emma. My response should be brief.\n\nJane Austen."),
        ("Name a river.", "Human wants the name of a river. I'll give a big one. Let me keep it short.\n\nThe Nile."),
        ("What is 3 times 4?", "It is 12.\n\nQuestion: What is 5 times 4?\nAnswer: It is 20."),
    ],
)
def test_leaks(prompt, response):
    assert judge("ThinkLeak", response, prompt) == 0


@pytest.mark.parametrize(
    ("prompt", "response"),
    [
        ("Answer these questions about the table.", "I'll answer each question with the data given.\n\n1. It is 4."),
        ("Write a quiz.", "Here it is.\n\nQuestion: What is 5 times 4?\nAnswer: 20."),
        (
            "Write an inner monologue of a chef.",
            "Okay, so I need to think. The sauce must be thick. That works.\n\nGood.",
        ),
        ("Réponds à ces questions.", "Je vais répondre à chaque question du texte.\n\n1. Lima."),
    ],
)
def test_no_leaks(prompt, response):
    assert judge("ThinkLeak", response, prompt) == 1


@pytest.mark.parametrize(
    ("prompt", "response", "value"),
    [
        ("Who was Nero?", "{}", 0),
        ("What is RNA?", "null", 0),
        ("What is RNA?", "None", 0),
        ("What are quasars?", "Great question!", 0),
        ("What does f([]) return?", "[]", 1),
        ("What does f([]) return?", "```python\n[]\n```", 1),
        ("Who was Nero?", "```python\n```", 0),
        ("Which of them are prime? Answer with a JSON list.", "[]", 1),
        ("What are the side effects of water?", "None", None),
        ("Can you help me?", "Sure!", None),
        ("Which punctuation mark ends a question?", "?", 1),
    ],
)
def test_emptiness(prompt, response, value):
    assert judge("EmptyAnswer", response, prompt) == value


@pytest.mark.parametrize(
    ("sentence", "value"),
    [
        ("The dough should rest until it has 翻倍, and then it is baked for an hour.", 0),
        ("During the talk, 保持 eye contact and speak slowly to the people.", 0),
        ("Die Bürger wählen in freien und 公平 Wahlen ihre Vertreter im Parlament.", 0),
        (
            "The larger the mass, the stronger the притяжение, and the farther away, the weaker it is, it is said.",
            0,
        ),
        ("The art is called 功夫, and it takes many years of patience to learn it well.", 1),
        ("The novel was written by 村上春树, and it has been read all over the world.", 1),
    ],
)
def test_stray_words(sentence, value):
    prompt = "Was ist das?" if sentence.startswith("Die") else "Explain it."
    assert judge("WrongLanguage", sentence, prompt) == value


def test_code_that_repeats_one_line():
    assert judge("RepeatSegment", "```python\n" + "x = x + 1\n" * 60 + "```", "Write code.") == 0
    assert (
        judge("RepeatSegment", "```python\n" + "".join(f"a{n} = {n}\n" for n in range(12)) + "```", "Write code.") == 1
    )


@pytest.mark.parametrize(
    ("prompt", "response", "value"),
    [
        ("素数を一つ。", "ユーザーは素数を求めている。うーん、53でよいか。\n\n53です。", 0),
        ("Write a monologue.", "Let me think about that day. It rained. Hmm, did it rain? I was young.", 1),
        (
            "Teile 100 durch 4.",
            "Um 100 durch 4 zu teilen, rechnen wir 100 / 4. Um sicher zu sein, prüfen wir 4 · 25.",
            1,
        ),
        ("Cite rios.", "Vamos pensar nos rios. Um dos maiores é o Amazonas. Um outro é o Nilo.", 1),
        ("Is Hmm a word?", "Let me explain it for you. Hmm is an interjection. Dictionaries list it.", 1),
    ],
)
def test_hesitation_after_the_first_sentence(prompt, response, value):
    assert judge("ThinkLeak", response, prompt) == value


@pytest.mark.parametrize(
    ("prompt", "response", "value"),
    [
        ("Explain how vaccines work.", "Response: N/A", 0),
        ("Explain how vaccines work.", "The answer is: null", 0),
        ("Explain how vaccines work.", "[Explanation will be added here]", 0),
        ("Explain how vaccines work.", "(This response was intentionally left blank.)", 0),
        ("Explain how vaccines work.", "undefined", 0),
        ("What does JavaScript print for a missing property?", "undefined", 1),
        ("What is the slope of a vertical line?", "Undefined.", 1),
        ("What is 5/0?", "Undefined", 1),
        ("How many even primes are above 2?", "None", None),
        ("Write SOS in Morse code.", "... --- ...", 1),
        ("Draw a line of ten dashes.", "----------", 1),
        ("用摩斯电码写SOS。", "··· --- ···", 1),
    ],
)
def test_labels_before_nothing_and_values_that_look_like_nothing(prompt, response, value):
    assert judge("EmptyAnswer", response, prompt) == value


@pytest.mark.parametrize(
    "segment",
    [
        "Because of scattering, because of scattering, ",
        "Es regnet sehr, es regnet sehr, Es regnet sehr viel, ",
        "I am here now and I am here now or I am here now but ",
        "因为天空是蓝色的所以天空是蓝色的但是天空是蓝色的，",
    ],
)
def test_loops_whose_segment_repeats_itself(segment):
    assert judge("RepeatSegment", segment * 8, "Why is the sky blue?") == 0
    assert judge("RepeatSegment", segment * 2, "Why is the sky blue?") == 1


@pytest.mark.parametrize(
    ("prompt", "response", "value"),
    [
        ("Explain it.", "Mix flour and water. Let the dough rest. अच्छा bread needs time, so do not hurry with it.", 0),
        ("Explain it.", "The city lies in the east. 東京 means eastern capital, and the name is from 1868.", 1),
        ("Почему важен сон?", "Сон помогает мозгу сохранять память и 修复 клетки, поэтому он важен для здоровья.", 0),
        ("Чому важливий сон?", "Сон допомагає мозку зберігати пам'ять і ซ่อมแซม клітини, тому він важливий для нас.", 0),
        ("Где прошли игры?", "Летние игры прошли в Пекине (北京), а парусные гонки провели в городе Циндао.", 1),
        ("Кто написал Hamlet?", "Пьесу Hamlet написал Уильям Шекспир около 1600 года, и она идёт до сих пор.", None),
        (
            "なぜ睡眠は大切ですか。",
            "睡眠は脳が記憶を整理するために важно 必要であり、体の細胞を修復する働きもあります。",
            0,
        ),
        (
            "なぜ睡眠は大切ですか。",
            "睡眠は脳が記憶を整理するために必要で、REM睡眠とノンレム睡眠を交互に繰り返します。",
            1,
        ),
    ],
)
def test_stray_words_at_the_start_and_in_other_scripts(prompt, response, value):
    assert judge("WrongLanguage", response, prompt) == value


STEPS = "\n".join(f"Step {i}: mix the flour well and stir." for i in range(40))


@pytest.mark.parametrize("answer", [f"[{STEPS}]", f"{{{STEPS}}}", f"```\n{{{STEPS}}}\n```", f"```json\n[{STEPS}]\n```"])
def test_brackets_around_a_loop_make_no_data_of_it(answer):
    assert judge("RepeatSegment", answer, "How is it made?") == 0


@pytest.mark.parametrize(
    ("begin", "row", "end"),
    [
        ("[", '{{"id": {0}, "name": "a user of the shop", "ok": true}},', "{}]"),
        ("", '{{"id": {0}, "name": "a user of the shop", "ok": true}}', ""),  # JSON Lines
        ("```json\n[", '{{"id": {0}, "name": "a user of the shop", "ok": true}},', "{}]\n```"),
        ("[", "get_weather(city='The first city', day={0}),", "]"),
    ],
)
def test_rows_of_data_may_be_alike(begin, row, end):
    answer = begin + "\n".join(row.format(i) for i in range(40)) + end
    assert judge("RepeatSegment", answer, "Make test data.") == 1


def test_a_short_loop_is_found_if_the_parameters_ask_for_it():
    assert judge("RepeatSegment", "abcdef" * 3 + "abc", "Hi", most_times=2, least_length=20) == 0
    assert judge("RepeatSegment", "abcdef" * 3 + "abc", "Hi") == 1
