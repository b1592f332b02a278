"""SummaryRecall: what an answer denies is not recalled, and what it states beside a denial is."""

from cases import folded

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.verifier import find_verifier


def recall(text, *points):
    verifier = find_verifier("SummaryRecall")
    return verifier.verify(Rollout(response=text), verifier.check_parameters({"points": points})).value


@folded(
    ("denied", "point"),
    [
        ("Profits did not rise in 2020.", "Profits rose in 2020."),
        (
            "In May, after a long debate, the board did not approve the merger.",
            "The board approved the merger in May after a long debate.",
        ),
        ("The lake isn't frozen.", "The lake is frozen."),
        ("It is false that the lake is frozen.", "The lake is frozen."),
        ("The company failed to reach its target.", "The company reached its target."),
        ("The company sold the plant.", "The company never sold the plant."),
        ("公司没有批准合并。", "公司批准了合并。"),
        ("公司并未批准合并。", "公司批准了合并。"),
        ("L'usine n'est pas fermée.", "L'usine est fermée."),
        ("Die Fabrik ist nicht geschlossen.", "Die Fabrik ist geschlossen."),
        ("La fábrica no cerró en mayo.", "La fábrica cerró en mayo."),
        ("工場は閉鎖されなかった。", "工場は閉鎖された。"),
        ("공장은 문을 닫지 않았다.", "공장은 문을 닫았다."),
        ("Завод не закрыли в мае.", "Завод закрыли в мае."),
    ],
)
def test_what_is_denied_is_not_recalled(denied, point):
    assert recall(denied, point) == 0
    assert recall(point, point) == 1
    assert (
        recall(
            f"{denied} So it was said. Years went by. Nobody asked again. The archive was opened. {point}",
            point,
        )
        == 1
    )


@folded(
    ("text", "point"),
    [
        ("Profits did not fall but rose sharply in 2020.", "Profits rose sharply in 2020."),
        ("The board, which did not meet in April, approved the merger.", "The board approved the merger."),
        ("There is no evidence that cats fly, yet cats sleep a lot.", "Cats sleep a lot."),
        ("Not only did profits rise, they doubled in 2020.", "Profits rise and doubled in 2020."),
        ("The company never sold the plant.", "The company never sold the plant."),
    ],
)
def test_a_denial_of_something_else_takes_nothing_away(text, point):
    assert recall(text, point) == 1


def test_hidden_words_recall_nothing():
    assert recall("<!-- Profits rose in 2020. --> Nothing to say here.", "Profits rose in 2020.") == 0


def test_a_point_does_not_contradict_itself_in_a_text_of_two_languages():
    point = "这个方法不仅有助于改善PCA在处理不平衡数据时的性能，也为其他机器学习算法提供了新的思路。"
    english = "This section explains how the weighting of the covariance matrix works in practice. " * 8
    assert recall(f"{english}{point}", point) == 1
