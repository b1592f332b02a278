"""Constraints of a prompt become criteria; what the prompt only talks about does not."""

import pytest

from rubrank.drafting.compiler import compile_prompt
from rubrank.drafting.rules.chinese import compile_chinese

WORDS = "length_constraints:number_words"
SENTENCES = "length_constraints:number_sentences"

STATED = [
    ("Write an essay of at least 900 words.", WORDS, {"relation": "at least", "num_words": 900}),
    ("Keep your answer under 50 words.", WORDS, {"relation": "less than", "num_words": 50}),
    ("Summarise it in 120 words or less.", WORDS, {"relation": "at most", "num_words": 120}),
    ("Use no fewer than two hundred words.", WORDS, {"relation": "at least", "num_words": 200}),
    ("The response must contain between 71 and 73 words.", "WordCount", {"low": 71, "high": 73}),
    ("Write a 300-word story.", "WordCount", {"relation": "around", "count": 300}),
    ("Answer in exactly three sentences.", "SentenceCount", {"relation": "exactly", "count": 3}),
    ("Your reply should have fewer than 6 sentences.", SENTENCES, {"relation": "less than", "num_sentences": 6}),
    ("Write two paragraphs about tides.", "ParagraphCount", {"relation": "exactly", "count": 2}),
    (
        "Your tweet must not exceed 280 characters.",
        "WordCount",
        {"relation": "at most", "count": 280, "unit": "characters"},
    ),
    ("Do not use any commas.", "punctuation:no_comma", {}),
    ("Write a poem without commas.", "punctuation:no_comma", {}),
    ("Answer in all capital letters.", "change_case:english_capital", {}),
    ("Your entire response should be in lowercase letters.", "change_case:english_lowercase", {}),
    ('Include the keywords "dose" and "tide".', "keywords:existence", {"keywords": ["dose", "tide"]}),
    ('Avoid using the word "station".', "keywords:forbidden_words", {"forbidden_words": ["station"]}),
    (
        'Use the word "tide" at least 3 times.',
        "keywords:frequency",
        {"keyword": "tide", "relation": "at least", "frequency": 3},
    ),
    (
        "The letter j should appear at least 20 times.",
        "keywords:letter_frequency",
        {"letter": "j", "let_relation": "at least", "let_frequency": 20},
    ),
    ("Give exactly 4 bullet points.", "detectable_format:number_bullet_lists", {"num_bullets": 4}),
    ("Give at least 4 bullet points.", "BulletCount", {"relation": "at least", "count": 4}),
    ("Wrap your entire response in JSON format.", "detectable_format:json_format", {}),
    ("Put double quotation marks around your whole answer.", "startend:quotation", {}),
    ('End your response with the phrase "See you soon."', "startend:end_checker", {"end_phrase": "See you soon."}),
    ("Your entire answer should be in Korean, no other language.", "language:response_language", {"language": "ko"}),
    ("Each word must start with the next letter of the alphabet.", "words:alphabet", {}),
    ("The response should include at least 22 pronouns.", "count:pronouns", {"N": 22}),
    ("请写一篇不少于800字的文章。", "WordCount", {"relation": "at least", "count": 800}),
    ("回答控制在两百字以内。", "WordCount", {"relation": "at most", "count": 200}),
    ("总字数控制在300-600字。", "WordCount", {"low": 300, "high": 600}),
    ("输出中不要包含“可能”。", "keywords:forbidden_words", {"forbidden_words": ["可能"]}),
    ("请用英文回答。", "language:response_language", {"language": "en"}),
    ("请分三段回答。", "ParagraphCount", {"relation": "exactly", "count": 3}),
    (
        "Use at least 3 hashtags.",
        "keywords:letter_frequency",
        {"letter": "#", "let_relation": "at least", "let_frequency": 3},
    ),
]

UNSTATED = [
    "What are the names of some famous actors?",
    "How many words are there in a 300 word essay?",
    "I have written a 2,000 word thesis about tides. What should I do next?",
    "Explain why commas matter in English.",
    "What does the word 'façade' mean?",
    "Translate this sentence to French: the cat sleeps.",
    "How do I parse JSON in Python?",
    '#include "custom_algorithms.hpp"',
    "Each paragraph should have at least 50 words.",
    "Should I use capital letters in a title?",
    "Who won 3 medals in 2012?",
    'The second verse should end with the line "and so it goes".',
    "弗朗西斯·高尔顿于哪一年首次使用‘优生学’这个术语？",
    "如果答案正确，请用不超过50字解释。",
    "每段不超过100字。",
]


@pytest.mark.parametrize(("prompt", "verifier", "params"), STATED, ids=[case[0][:40] for case in STATED])
def test_a_stated_constraint_becomes_its_criterion(prompt, verifier, params):
    compiled = [(constraint.verifier, dict(constraint.params)) for constraint in compile_prompt(prompt)]
    assert compiled == [(verifier, params)]


@pytest.mark.parametrize("prompt", UNSTATED, ids=[prompt[:40] for prompt in UNSTATED])
def test_what_is_not_asked_of_the_response_is_no_criterion(prompt):
    assert compile_prompt(prompt) == []


@pytest.mark.parametrize(
    ("prompt", "params"),
    [
        ("请写一篇文章，字数控制在300到400字。", [{"low": 300, "high": 400}]),
        ("请写一篇文章，字数控制在三百到四百字。", [{"low": 300, "high": 400}]),
        ("请写一篇文章，字数要求：300到400。", [{"low": 300, "high": 400}]),
        ("请写一篇文章，不要写“字数300到400”。", []),
    ],
)
def test_a_chinese_range_is_stated_once_and_not_by_a_quotation(prompt, params):
    constraints = compile_chinese(prompt)
    assert [dict(constraint.params) for constraint in constraints if constraint.verifier == "WordCount"] == params


@pytest.mark.parametrize(
    ("prompt", "stated"),
    [
        ("请根据以下JSON回答问题。", False),
        ("请根据以下json回答问题。", False),
        ("请根据以下JSON格式的数据回答问题。", False),
        ("请按以下JSON格式输出。", True),
        ("请以json格式输出。", True),
        ("请以Json格式输出。", True),
    ],
)
def test_json_in_a_chinese_prompt_is_material_or_the_format(prompt, stated):
    verifiers = [constraint.verifier for constraint in compile_chinese(prompt)]
    assert ("FormatRequirement" in verifiers) == stated


def test_a_chinese_ending_of_a_part_is_no_ending_of_the_response():
    assert compile_chinese("文章可以自由发挥，请让每段以“谢谢”结尾。") == []
    assert compile_chinese("请让每段以“从前”开头，以“谢谢”结尾。") == []
    both = compile_chinese("请以“从前”这句话开头，以“谢谢”结尾。")
    assert [constraint.verifier for constraint in both] == ["startend:end_checker", "Regex"]
    assert [
        dict(found.params) for found in compile_chinese("每行可以换韵，但是请注意下面这一点：全文以“谢谢”结尾。")
    ] == [{"end_phrase": "谢谢"}]


def test_evidence_is_the_sentence_of_the_prompt():
    (constraint,) = compile_prompt("Tell me about tides. Please don't use any commas. Thanks!")
    assert constraint.evidence == "Please don't use any commas."


def test_material_states_nothing():
    prompt = (
        'Fix the grammar of this text: "'
        + "The essay must have at least 500 words and it should not be late. " * 6
        + '"'
    )
    assert compile_prompt(prompt) == []
