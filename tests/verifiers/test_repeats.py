import random

import pytest
from cases import examples, folded
from hypothesis import given
from hypothesis import strategies as st

from rubrank.verifiers.gates.repetition import K, Repeat, asks_to_repeat, find_repeats


@folded("period", [1, 2, 3, 5, 11, 12, 13, 40, 333, 5000])
@folded("letters", ["abcdefgh ", "春夏秋冬梅兰竹菊，"])
def test_a_loop_of_any_period_is_one_repeat_of_that_distance(period, letters):
    rng = random.Random(period)
    segment = "".join(rng.choice(letters) for _ in range(period - 1)) + "#"
    copies = max(4, 60 // period)
    text = "Before. " + segment * copies + " After."
    found = [r for r in find_repeats(text) if r.distance == period]
    assert found
    assert max(r.length for r in found) >= (copies - 1) * period
    assert max(r.times for r in found) >= copies


@given(st.text("ab", max_size=200), st.integers(2, 12))
@examples(150)
def test_every_repeat_is_real_and_no_window_that_stood_before_is_left_out(text, k):
    covered = set()
    for repeat in find_repeats(text, k):
        end = repeat.start + repeat.length
        assert text[repeat.start : end] == text[repeat.start - repeat.distance : end - repeat.distance]
        covered.update(range(repeat.start, end - k + 1))
    seen: set[str] = set()
    for i in range(len(text) - k + 1):
        assert (i in covered) == (text[i : i + k] in seen)
        seen.add(text[i : i + k])


def test_nothing_is_found_where_nothing_repeats():
    assert find_repeats("") == []
    assert find_repeats("x" * K) == []
    assert find_repeats("".join(map(chr, range(0x4E00, 0x5E00)))) == []


def test_odd_characters_are_characters():
    assert find_repeats("\ud800\x00\u200b" * 20) == [Repeat(3, 57, 3)]


@pytest.mark.timeout(120)  # comparing each place with all earlier ones would take hours
def test_texts_of_a_million_characters():
    size = 1_000_000
    text = "".join(random.Random(size).choices("abcdef ", k=size))
    assert all(repeat.length < 2 * K for repeat in find_repeats(text))  # chance alone repeats no more
    assert find_repeats("ab" * (size // 2)) == [Repeat(2, size - 2, 2)]


@folded(
    "prompt",
    [
        'Repeat "I will be good." 20 times.',
        "Say hello 10 times",
        "write 'I must not talk.' again and again",
        "Take the word yes and repeat it 50 times.",
        "Please repeat the request word for word.",
        "重复“你好”十遍",
        "写“我错了”一百遍",
        "请复述这段话",
        "把这句话抄写10遍",
        "请重复我的话三次",
    ],
)
def test_requests_to_repeat(prompt):
    assert asks_to_repeat(prompt)


@folded(
    "prompt",
    [
        "",
        "Summarise: the pump failed four times last winter.",
        "Do not repeat yourself.",
        "Repeat offenders were fined four times.",
        "Please write a note that the ferry failed four times.",
        "The Times wrote to us many times.",
        "会议上次提到了预算",
        "不要重复上面的内容",
        "写一封邮件，说明水泵去年坏了四次",
        "他说了三次，这次会议讨论预算",
    ],
)
def test_what_only_speaks_of_times_is_no_request_to_repeat(prompt):
    assert not asks_to_repeat(prompt)
