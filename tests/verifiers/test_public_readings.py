"""compat="upstream": the public checkers' own tools, counters and quirks; and arguments that nobody knows."""

import pytest
from cases import folded

from rubrank.errors import InvalidInput
from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers import load
from rubrank.verifiers.instruction_items import SENTENCES, WORDS, count_upstream, count_words, public_params
from rubrank.verifiers.shared import public_tools
from rubrank.verifiers.verifier import find_verifier

load()


def check(name, text, compat="upstream", mode="strict", **kwargs):
    verifier, params = public_params(name, kwargs)
    rollout = Rollout(response=text, reasoning="")
    return verifier.verify(rollout, verifier.check_parameters(params), compat=compat, mode=mode).value


def item(name, text, compat="upstream", **params):
    verifier = find_verifier(name)
    return verifier.verify(Rollout(response=text), verifier.check_parameters(params), compat=compat)


# ---- langdetect and janome ----


def test_langdetect_is_seeded_and_the_shared_factory_is_left_alone():
    factory = pytest.importorskip("langdetect.detector_factory")
    before = factory.DetectorFactory.seed
    words = ["etchings", "carvings", "SHELDON", "shoreline estates", "oui", "no", "a b c"]
    first = [public_tools.detect_public_language(word) for word in words]
    public_tools.detect_public_language.cache_clear()
    assert [public_tools.detect_public_language(word) for word in words] == first
    assert factory.DetectorFactory.seed == before


def test_langdetect_decides_upstream():
    pytest.importorskip("langdetect")
    assert check("language:response_language", "Guten Tag, wie geht es dir heute?", language="de") == 1
    assert check("language:response_language", "你好，今天天气很好。", language="zh") == 0
    assert check("language:response_language", "123 !!", language="de") == 1
    assert check("change_case:english_capital", "THIS IS A QUITE ORDINARY ENGLISH SENTENCE ABOUT THE WEATHER.") == 1


@pytest.mark.parametrize(
    "text",
    [
        "EL SOL BRILLA SOBRE LA CIUDAD Y TODOS SALEN A CAMINAR POR EL PARQUE.",
        "HOLA, ME LLAMO ANA Y VIVO EN MADRID CON MI FAMILIA.",
        "LA EDUCACIÓN ES LA BASE DEL PROGRESO DE UN PAÍS.",
    ],
)
def test_the_language_of_spanish_capitals_is_detected_in_lower_case(text):
    pytest.importorskip("langdetect")
    assert public_tools.detect_public_language(text) != "es"
    assert check("change_case:english_capital", text, lang="es") == 1
    assert check("change_case:english_capital", "THE SUN SHINES OVER THE CITY, AND EVERYBODY GOES OUT.", lang="es") == 0


@pytest.mark.parametrize("text", ["Identify the cause.", "Clarify your goals first.", "Simplify this fraction."])
def test_verbs_in_ify_are_verbs_with_a_capital(text):
    assert check("words:start_verb", text) == 1


def test_without_the_tools_our_own_rules_decide(monkeypatch):
    public_tools.detect_public_language.cache_clear()
    monkeypatch.setattr(public_tools, "_load_detector_factory", lambda: None)
    monkeypatch.setattr(public_tools, "_load_tokenizer", lambda: None)
    assert check("language:response_language", "Guten Tag, wie geht es dir heute?", language="de") == 1
    assert check("ja:keywords:forbidden_words", "この大聖堂は有名です。", forbidden_words=["大聖堂"]) == 0
    assert check("ja:detectable_format:nominal_ending", "春の京都。", count=1) == 1
    public_tools.detect_public_language.cache_clear()


@pytest.mark.parametrize(
    ("text", "word", "there"),
    [("猫が好きです。", "猫", True), ("この大聖堂は有名です。", "大聖堂", False), ("京都に行く。", "京都", True)],
)
def test_japanese_words_are_those_of_the_analyser(text, word, there):
    pytest.importorskip("janome")
    assert check("ja:keywords:existence", text, keywords=[word]) == there
    assert check("ja:keywords:frequency", text, keyword=word, frequency=1, relation="以上") == there
    assert check("ja:keywords:forbidden_words", text, forbidden_words=[word]) == (not there)
    assert check("ja:keywords:forbidden_words", text, compat="fixed", forbidden_words=[word]) == 0


def test_nominal_endings_are_nouns_of_the_analyser():
    pytest.importorskip("janome")
    assert check("ja:detectable_format:nominal_ending", "静かな夜。輝く星。", count=2) == 1
    assert check("ja:detectable_format:nominal_ending", "夜が静かだ。「星。」", count=1) == 0


# ---- Spanish ----


def test_spanish_ends_first_words_and_bullets():
    assert check("es:startend:end_checker", "Fin. Un saludo.", end_phrase="Un saludo") == 1
    assert check("es:startend:end_checker", "Fin. Un saludo..", end_phrase="Un saludo") == 0
    assert check("en:startend:end_checker", "The end.", end_phrase="The end") == 0
    first = {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "Sin embargo"}
    assert check("es:length_constraints:nth_paragraph_first_word", "Uno.\n\nSin embargo, dos.", **first) == 1
    assert check("es:length_constraints:nth_paragraph_first_word", "Uno.\n\n* Sin embargo: dos.", **first) == 1
    assert check("es:length_constraints:nth_paragraph_first_word", "Uno.\n\nSin duda dos.", **first) == 0
    assert check("es:detectable_format:number_bullet_lists", "* a\n- b", num_bullets=1) == 1
    assert check("en:detectable_format:number_bullet_lists", "* a\n- b", num_bullets=2) == 1


# ---- arguments that nobody knows ----


def test_at_least_stays_at_least():
    sections = {"section_spliter": "Sección", "num_sections": 2, "relation": "al menos"}
    three = "Sección 1\na\nSección 2\nb\nSección 3\nc"
    assert check("es:detectable_format:multiple_sections", three, compat="fixed", **sections) == 1
    assert check("es:detectable_format:multiple_sections", three, compat="fixed", **sections | {"relation": None}) == 0
    assert (
        check(
            "es:detectable_content:number_placeholders",
            "[a]",
            compat="fixed",
            num_placeholders=2,
            relation="como máximo",
        )
        == 1
    )


@pytest.mark.parametrize(
    ("name", "kwargs"),
    [
        ("punctuation:no_comma", {"relaton": "al menos"}),
        ("count:numbers", {"N": 2, "M": 3}),
        ("keywords:existence", {"keywords": ["a"], "k": 1}),
    ],
)
def test_an_unknown_argument_is_refused_and_null_is_none(name, kwargs):
    verifier, params = public_params(name, kwargs)
    with pytest.raises(InvalidInput, match="|".join(set(kwargs) - set(verifier.parameters.model_fields))):
        verifier.check_parameters(params)
    one = {"instruction_id_list": [name], "kwargs": [kwargs]}
    for benchmark in ("IFBench", "LiveBench"):
        assert item(benchmark, "a 1 2", **one).value is None
    assert item("MultiIF", "a 1 2", turns=[one]).value is None
    known = {key: value for key, value in kwargs.items() if key in verifier.parameters.model_fields}
    verifier.check_parameters(public_params(name, known | {"other": None})[1])


# ---- Multi-IF and LiveBench ----


@folded(
    ("text", "words"),
    [("こんにちは、Jason。", 6), ("我爱 you 三千遍！", 6), ("Hello world", 2), ("好👍", 2), ("", 0)],
)
def test_multi_if_counts_characters_of_east_asia(text, words):
    assert count_words(text) == words


def test_multi_if_counts_by_the_language_of_the_answer():
    chinese = "今天天气很好。我们去公园吧！你觉得呢？那就走吧."
    assert count_upstream(SENTENCES, chinese) == 4
    assert count_upstream(WORDS, chinese) == 20
    assert count_upstream(SENTENCES, "This is plain English text. It has two sentences.") is None
    hindi = "मैं घर जा रहा हूँ। क्या आप भी आ रहे हैं? चलो चलते हैं।"
    assert count_upstream(SENTENCES, hindi) == 3


def turn(name, **kwargs):
    return {"instruction_id_list": [name], "kwargs": [kwargs]}


def test_multi_if_uses_its_own_counters():
    chinese = "今天天气很好。我们去公园吧！"
    exact = [turn(WORDS, num_words=12, relation="at least")]
    assert item("MultiIF", chinese, turns=exact).value == 1
    assert item("MultiIF", chinese, turns=[turn(WORDS, num_words=13, relation="at least")]).value == 0
    assert item("MultiIF", chinese, turns=[turn(SENTENCES, num_sentences=3, relation="less than")]).value == 1


def test_an_undecided_instruction_makes_the_item_missing():
    thai = "วันนี้อากาศดีมาก เราไปสวนสาธารณะกันเถอะ"
    assert item("MultiIF", thai, turns=[turn(SENTENCES, num_sentences=1)]).value is None
    names = [turn("language:response_language", language="de")]
    undecided = item("MultiIF", "Otto", compat="fixed", turns=names)
    assert undecided.value is None
    assert "language:response_language" in undecided.reason


def test_live_bench_looks_at_the_solution():
    one = {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}
    assert item("LiveBench", "Well, here: <solution>no comma</solution>", **one).value == 1
    assert item("LiveBench", "<solution>a</solution> or <solution>a, b</solution>", **one).value == 0
    assert item("LiveBench", "Well, <solution></solution>", **one).value == 0


# ---- IFBench, as of commit 1d62c1d of its repository ----

KEYWORDS = dict(zip(("keyword1", "keyword2", "keyword3", "keyword4", "keyword5"), "vwxyz", strict=True))
COUNTS = "w w x x x y y y y y z z z z z z z"


@folded(
    ("name", "text", "kwargs", "value"),
    [
        ("format:title_case", "a Red Fox", {}, 0),
        ("format:title_case", "A Red Fox", {}, 1),
        ("words:keywords_specific_position", "Yes. I GIGGLE.", {"keyword": "giggle", "n": 2, "m": 2}, 1),
        ("words:words_position", "A LIVELY street and a lively square", {"keyword": "lively"}, 1),
        ("words:words_position", "“A lively street and a lively square!”", {"keyword": "lively"}, 1),
        ("words:words_position", "A lively street is lively.", {"keyword": "lively"}, 0),
        ("count:keywords_multiple", f"v vow {COUNTS}", KEYWORDS, 1),
        ("count:keywords_multiple", f"v v {COUNTS}", KEYWORDS, 0),
        ("repeat:repeat_span", "two three", {"prompt_to_repeat": "one two three four", "n_start": 1, "n_end": 2}, 1),
        ("repeat:repeat_span", "n", {"prompt_to_repeat": "one two three four", "n_start": 1, "n_end": 2}, 0),
        ("ratio:sentence_words", "Birds fly up. Birds dip in. Foxes run by.", {}, 0),
        ("ratio:overlap", "a red hen", {"reference_text": "a red fox ran", "percentage": 100}, 0),
        ("ratio:overlap", "a red fox", {"reference_text": "a red fox ran", "percentage": 100}, 1),
    ],
)
def test_ifbench_as_it_is_now(name, text, kwargs, value):
    assert check(name, text, **kwargs) == value
