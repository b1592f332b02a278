import pytest
from cases import folded

from rubrank.errors import InvalidInput
from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.paper import length as paper_language
from rubrank.verifiers.shared.answer_languages import find_request
from rubrank.verifiers.shared.word_tables import read_table
from rubrank.verifiers.verifier import find_verifier

TEXTS = {
    "en": "The weather is fine today, and we are going for a long walk along the river.",
    "zh": "今天天气很好，我们打算沿着河边走一走，然后回家吃饭。",
    "fr": "Il fait beau aujourd'hui et nous allons nous promener le long de la rivière.",
    "de": "Das Wetter ist heute schön, und wir machen einen langen Spaziergang am Fluss.",
    "es": "Hoy hace buen tiempo y vamos a dar un largo paseo por la orilla del río.",
    "ja": "今日は天気がいいので、川沿いを長く散歩するつもりです。",
    "ko": "오늘은 날씨가 좋아서 강가를 따라 오래 산책할 예정입니다.",
    "ru": "Сегодня хорошая погода, и мы собираемся долго гулять вдоль реки.",
    "ar": "الطقس جميل اليوم وسنذهب في نزهة طويلة على ضفاف النهر.",
    "th": "วันนี้อากาศดีและเราจะไปเดินเล่นริมแม่น้ำกันนานๆ",
}


def verdict(name, response, prompt="", **params):
    verifier = find_verifier(name)
    return verifier.verify(Rollout(response=response, prompt=prompt), verifier.check_parameters(params))


@folded("code", TEXTS)
def test_each_language_is_itself_and_no_other(code):
    passed = [other for other in TEXTS if verdict("LanguageRequirement", TEXTS[code], language=other).value]
    assert passed == [code]


@folded("asked", TEXTS)
def test_an_answer_in_the_prompts_language_is_never_wrong_and_in_another_always(asked):
    for code, text in TEXTS.items():
        assert verdict("WrongLanguage", text, TEXTS[asked]).value == (code == asked)
        assert verdict("LanguageDetection", text, TEXTS[asked]).value == (code == asked)


@folded("name", ["French", "french", "法语", "fr", "fr-FR", "FR"])
def test_names_of_languages(name):
    assert paper_language.find_language_code(name) == "fr"


def test_a_language_that_the_prompt_asks_for_is_expected():
    prompt = "Please describe the weather in French."
    assert verdict("WrongLanguage", TEXTS["fr"], prompt).value == 1
    assert verdict("WrongLanguage", TEXTS["en"], prompt).value == 0
    assert verdict("WrongLanguage", TEXTS["en"], "请用英文描述一下今天的天气和计划。").value == 1


def test_a_language_left_open_is_not_decided():
    assert verdict("WrongLanguage", TEXTS["es"], "Answer in a language other than English, please.").value is None
    assert verdict("WrongLanguage", TEXTS["es"], "Describe it in another language, please.").value is None
    only = "Describe it using only the French language, no other language is allowed."
    assert verdict("WrongLanguage", TEXTS["es"], only).value == 0


def test_half_in_another_language_is_too_much():
    assert verdict("LanguageRequirement", f"{TEXTS['en']}\n\n{TEXTS['zh']}", language="en").value == 0


def test_an_unknown_language_is_refused():
    with pytest.raises(InvalidInput, match="Klingon"):
        verdict("LanguageRequirement", TEXTS["en"], language="Klingon")


@folded(
    ("prompt", "codes"),
    [
        ("把下面的通知译成简体中文：The tour will be held in English.", {"zh"}),
        ("Translate the German text below into French.\n\nSie spricht nur auf Deutsch.", {"fr"}),
        ("Translate into Simplified Chinese:\n\nThe tour is given in English only.", {"zh"}),
        ("auf Deutsch bitte", {"de"}),
        ("Answer in Spanish", {"es"}),
        ("Répondez en anglais.", {"en"}),
        ("日本語で答えてください", {"ja"}),
        ("Write a poem in English and Spanish.", {"en", "es"}),
        ("Translate it to Polish.", {"pl"}),
        ("Rewrite it to polish the style.", set()),
        ("Do not answer in English.", set()),
        ("Write about cooking in French restaurants.", set()),
        ("What does 'bonjour' mean in French?", set()),
        ("Summarize the French text below.", set()),
    ],
)
def test_the_language_that_a_prompt_asks_for(prompt, codes):
    assert find_request(prompt).asked == codes


@pytest.mark.parametrize(("kind", "language", "pattern", "example", "counter_example"), read_table("language_requests"))
def test_patterns_of_requests(kind, language, pattern, example, counter_example):
    if kind == "further part":
        assert not find_request(f"{example}\nAnswer in French.").whole
        assert find_request(f"{counter_example}\nAnswer in French.").whole
    else:  # all other kinds are about requests that are none, or that are not sure
        is_request = kind in ("translation", "request")
        assert bool(find_request(example).asked) == is_request
        assert bool(find_request(counter_example).asked) != is_request


@pytest.mark.parametrize("code", ["en", "fr", "zh"])
def test_a_translation_is_in_the_language_asked_for_not_in_that_of_the_source(code):
    name = {"en": "English", "fr": "French", "zh": "简体中文"}[code]
    prompt = f"把下面的话译成{name}：{TEXTS['es']}" if code == "zh" else f"Translate into {name}: {TEXTS['es']}"
    for verifier in ("WrongLanguage", "LanguageDetection"):
        assert verdict(verifier, TEXTS[code], prompt).value == 1
        assert verdict(verifier, TEXTS["es"], prompt).value == 0


@pytest.mark.parametrize(
    "text",
    [
        "Done: Casa Lume, Friday 16 May, 20:00, four people, Solberg. Code K7Q2.",
        "Booked at Casa Lume for Friday 23 May at 20:00. Code K7Q2.",
        "Done: Playa del Carmen, Casa de la Luna, La Trattoria, Friday. Reference 33. Total 45 EUR.",
    ],
)
def test_names_and_dates_do_not_make_an_answer_one_of_another_language(text):
    prompt = "Could you please book a table for four people on Friday?"
    values = {
        verdict("LanguageDetection", text, prompt).value,
        verdict("WrongLanguage", text, prompt).value,
        verdict("LanguageRequirement", text, language="en").value,
    }
    assert 0 not in values
    assert verdict("LanguageRequirement", text, language="zh").value != 1


def test_a_few_characters_show_a_script_of_one_language():
    assert verdict("WrongLanguage", "周一消防演习，闭馆。", language="zh").value == 1
    assert verdict("WrongLanguage", "周一消防演习，闭馆。", language="en").value == 0
    assert verdict("WrongLanguage", "วันจันทร์ปิดทำการ", language="th").value == 1
    assert verdict("WrongLanguage", "周杰伦", language="en").value is None  # a name


def test_latin_letters_beside_chinese_characters_do_not_make_them_chinese():
    """A Japanese address needs no kana; 30 Chinese characters without kana would be Chinese, but Latin letters not."""
    address = "田中先生、東京都千代田区千代田一番一号 Imperial Palace Tokyo"
    assert verdict("LanguageRequirement", address, language="ja").value != 0
    assert verdict("language:response_language", address, language="ja").value is None


@folded("prompt", ["Describe life in French-speaking Africa.", "Write about politics in German‑occupied Poland."])
def test_a_language_within_a_compound_is_not_asked_for(prompt):
    assert find_request(prompt).asked == set()
    assert find_request(f"{prompt} Answer in French - nothing else.").asked == {"fr"}
