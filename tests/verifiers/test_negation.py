"""What sentences deny, language by language; and adverbs, which deny nothing."""

from __future__ import annotations

import pytest

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.shared.negation import find_denials
from rubrank.verifiers.verifier import find_verifier

# (a sentence that states something, the same with a denial, with adverbs that change nothing)
SENTENCES = {
    "en": (
        "Profits rose in May.",
        "Profits did not rise in May.",
        [
            "Profits certainly rose in May.",
            "Profits rose, no doubt, in May.",
            "It is a no-brainer: profits rose in May.",
            "Without question profits rose in May.",
        ],
    ),
    "zh": (
        "公司批准了合并。",
        "公司没有批准合并。",
        ["公司不久批准了合并。", "公司毫无疑问批准了合并。", "公司非常快地批准了合并。", "公司无疑批准了合并。"],
    ),
    "ja": (
        "彼は明日東京に行きます。",
        "彼は明日東京に行きません。",
        ["彼は必ず明日東京に行きます。", "彼はまず明日東京に行きます。", "彼は間違いなく明日東京に行きます。"],
    ),
    "ko": (
        "공장은 5월에 문을 닫았다.",
        "공장은 5월에 문을 닫지 않았다.",
        ["공장은 틀림없이 5월에 문을 닫았다.", "공장은 어김없이 5월에 문을 닫았다."],
    ),
    "fr": (
        "L'usine est fermée depuis le mois de mai.",
        "L'usine n'est pas fermée depuis le mois de mai.",
        ["L'usine est sans doute fermée depuis le mois de mai."],
    ),
    "es": (
        "La fábrica cerró sus puertas en mayo.",
        "La fábrica no cerró sus puertas en mayo.",
        ["La fábrica sin duda cerró sus puertas en mayo."],
    ),
    "de": (
        "Die Fabrik wurde im Mai geschlossen.",
        "Die Fabrik wurde im Mai nicht geschlossen.",
        ["Die Fabrik wurde ohne Zweifel im Mai geschlossen."],
    ),
    "ru": (
        "Завод закрыли в мае этого года.",
        "Завод не закрыли в мае этого года.",
        ["Завод без сомнения закрыли в мае этого года."],
    ),
    "it": (
        "La fabbrica ha chiuso nel mese di maggio.",
        "La fabbrica non ha chiuso nel mese di maggio.",
        ["La fabbrica ha senza dubbio chiuso nel mese di maggio."],
    ),
    "pt": (
        "A fábrica fechou as portas em maio.",
        "A fábrica não fechou as portas em maio.",
        ["A fábrica sem dúvida fechou as portas em maio."],
    ),
    "nl": (
        "De fabriek werd in mei gesloten.",
        "De fabriek werd in mei niet gesloten.",
        ["De fabriek werd zonder twijfel in mei gesloten."],
    ),
    "id": (
        "Pabrik itu tutup pada bulan Mei.",
        "Pabrik itu tidak tutup pada bulan Mei.",
        ["Pabrik itu tanpa ragu tutup pada bulan Mei."],
    ),
}


@pytest.mark.parametrize("language", SENTENCES)
def test_denials_are_found_and_adverbs_are_none(language):
    statement, denial, with_adverbs = SENTENCES[language]
    assert find_denials(denial, language)
    assert not find_denials(statement, language)
    for sentence in with_adverbs:
        assert not find_denials(sentence, language), sentence


@pytest.mark.parametrize("language", SENTENCES)
def test_an_adverb_takes_no_recall_away(language):
    statement, denial, with_adverbs = SENTENCES[language]
    verifier = find_verifier("SummaryRecall")
    params = verifier.check_parameters({"points": [statement], "threshold": 0.6})

    def recall(text):
        return verifier.verify(Rollout(response=text), params).value

    assert recall(statement) == 1
    assert recall(denial) == 0
    for sentence in with_adverbs:
        assert recall(sentence) == 1, sentence


def test_a_sentence_whose_language_has_no_words_of_denial_denies_nothing():
    assert find_denials("Gamyklą jie uždarė gegužės mėnesį.", "lt") == []
