"""compat="fixed": the wording of the prompt decides; what is no sentence, divider or section does not count."""

import pytest
from cases import folded

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers import load
from rubrank.verifiers.instruction_items import public_params
from rubrank.verifiers.instructions.ifeval_format import allows_more, asks_for_at_least
from rubrank.verifiers.instructions.ifeval_words import remove_frame
from rubrank.verifiers.instructions.m_ifeval import find_quotations
from rubrank.verifiers.verifier import find_verifier

load()


def check(name, text, prompt="", **kwargs):
    verifier, params = public_params(name, kwargs)
    rollout = Rollout(prompt=prompt, response=text, reasoning="")
    return verifier.verify(rollout, verifier.check_parameters(params)).value


OPTIONS = '"My answer is yes.", "My answer is no.", "My answer is maybe."'
REASONED = "My answer is no. A poodle is smaller."


@folded(
    ("prompt", "text", "value"),
    [
        (f"Your answer must contain one of these phrases: {OPTIONS}", REASONED, 1),
        (f"Choose from {OPTIONS} - please include the exact phrase.", f"Poodles are small. {REASONED}", 1),
        (f"Think out loud, then answer with one of {OPTIONS}", "Pikachu is a Pokémon.\n\nMy answer is no.", 1),
        (f"You should just say {OPTIONS}", REASONED, 0),
        (f"Only answer {OPTIONS}", "**My answer is no.**", 1),
        (f"Is it bigger? Answer {OPTIONS}", REASONED, 1),
        (f"Is it bigger? Answer {OPTIONS}", "Well. My answer is no. But who knows.", 0),
        (f"Your answer must contain one of {OPTIONS}", "My answer is yes. Or: My answer is no.", 0),
        (f"Your answer must contain one of {OPTIONS}", "Perhaps my answer is known.", 0),
        ("", REASONED, 0),
        ("", "My answer is no.", 1),
        ("", '"my answer is maybe."', 1),
    ],
)
def test_what_may_stand_beside_the_option(prompt, text, value):
    assert check("detectable_format:constrained_response", text, prompt) == value


@pytest.mark.parametrize(
    ("prompt", "text", "value"),
    [
        ("Répondez en choisissant : ('Oui.', 'Non.', 'Peut-être.')", "Oui. Les animaux aident.", 1),
        ("Répondez en choisissant : ('Oui.', 'Non.', 'Peut-être.')", "Choisissez ('Oui.', 'Non.', 'Peut-être.')", 0),
        ("Répondez uniquement par 'Oui.', 'Non.' ou 'Peut-être.'", "Oui. Les animaux aident.", 0),
    ],
)
def test_options_of_other_languages(prompt, text, value):
    assert check("fr:detectable_format:constrained_response", text, prompt) == value


SECTIONS = {"section_spliter": "SECTION", "num_sections": 2}


@folded(
    ("prompt", "text", "value"),
    [
        ("", '"SECTION 1: Joy\na\n\nSECTION 2\nb"', 1),
        ("", "“SECTION 1\na\nSECTION 2\nb”", 1),
        ("", '"SECTION 1"\na\n"SECTION 2"\nb', 1),
        ("", "(Verse - SECTION 1)\na\n(Verse - SECTION 2)\nb", 1),
        ("", "SECTION X\na\nSECTION X\nb", 0),
        ("", "SECTION I\na\nSECTION II\nb", 1),
        ("", "see SECTION 1 and SECTION 2", 0),
        ("", "SECTION 1\nSECTION 2\nSECTION 3", 0),
        ("Include at least two sections, each marked SECTION X.", "SECTION 1\nSECTION 2\nSECTION 3", 1),
        ("Write 2 or more sections.", "SECTION 1\nSECTION 2\nSECTION 3", 1),
        ("Write at least two poems in 2 parts.", "SECTION 1\nSECTION 2\nSECTION 3", 0),
        (
            "Write two versions, each with 2 sections.",
            "SECTION 1\na\nSECTION 2\nb\n******\nSECTION 1\nc\nSECTION 2\nd",
            1,
        ),
        ("Write two versions, each with 2 sections.", "SECTION 1\na\nSECTION 2\nb\n******\nSECTION 1\nc", 0),
    ],
)
def test_sections(prompt, text, value):
    assert check("detectable_format:multiple_sections", text, prompt, **SECTIONS) == value


@folded(
    ("text", "n"),
    [
        ("One.\n***\nTwo.", 2),
        ("One.***\n\nTwo.", 2),
        ("One. ***\nTwo.", 2),
        ("***One.\n\n***Two.", 2),
        ("One.\n\n*** Two.", 2),
        ("***bold*** words.\n\nmore", 1),
        ("It is ***bold***\n\nmore", 1),
        ("***\nOne.\n***\nTwo.\n***", 2),
        ("One.***.\nTwo.", 2),
        ("One.\n\nTwo.", 1),
        ("a ****** b", 1),
    ],
)
def test_three_asterisks_at_the_end_of_a_line_divide(text, n):
    for asked in (n - 1, n, n + 1):
        assert check("length_constraints:number_paragraphs", text, num_paragraphs=asked) == (asked == n)


@folded(
    ("text", "marker", "value"),
    [
        ("It was great. P.S. Call me.", "P.S.", 1),
        ("All done! P.P.S. Call me.", "P.P.S", 1),
        ("Bye.\n\n**P.S.** Call me.", "P.S.", 1),
        ("Post-scriptum : p.-s. Appelle-moi.", "p.-s.", 1),
        ("Fini. P-S. Appelle-moi.", "P-S", 1),
        ("Postscript (P.S.)\nCall me.", "P.S.", 1),
        ("9. P.P.S\n\nCall me.", "P.P.S", 1),
        ("the P.S. was lost", "P.S.", 0),
        ("Bye.\nP.S.", "P.S.", 0),
        ("It was great. P.S. Call me.\n\nThe end.", "P.S.", 0),
        ("These steps help.", "P.S.", 0),
    ],
)
def test_a_postscript_may_stand_in_the_last_line(text, marker, value):
    assert check("detectable_content:postscript", text, postscript_marker=marker) == value


@folded(
    "frame",
    [
        "<<A title>>\n\n{}",
        "# A heading\n\n{}",
        "**A bold heading**\n\n{}",
        "Subject: Rain\n\n{}",
        "Dear Ann,\n\n{}",
        "Hi there!\n\n{}",
        "{}\n\nBest regards,\nBob",
        "{}\n\nSincerely,\n\n[Your Name]",
        "Cher ami,\n\n{}\n\nAmicalement,\nLéa",
        "##Titre##\n{}",
        "Hello Sam:\n{}",
        "<<T>>\n\nDear all,\n\n{}\n\nWarm regards,\n\nA. Bell\nManager",
        "亲爱的小明：\n\n{}",
    ],
)
def test_titles_salutations_and_signatures_are_no_sentences(frame):
    text = frame.format("It rains. It pours.")
    for n in (1, 2, 3):
        assert check("length_constraints:number_sentences", text, num_sentences=n, relation="exactly") == (n == 2)


def test_what_looks_like_a_frame_but_speaks_is_a_sentence():
    for text in (
        "Hi there. I am well.",
        "Dear Ann, it rains. It pours.",
        "It rains.\n\nBest regards come from Bob.",
        "**It rains.**\n\nIt pours.",
    ):
        assert check("length_constraints:number_sentences", text, num_sentences=2, relation="exactly") == 1, text
    assert remove_frame("Dear Ann,") == ""


@folded(
    ("text", "value"),
    [
        ("Fine. The end.", 1),
        ("Fine. The end", 1),
        ('Fine. "The end".', 1),
        ("Fine. **The end.**", 1),
        ("Fine. The end!", 0),
        ("The end. Bye.", 0),
        ("Fine. The end..", 0),
    ],
)
def test_a_full_stop_may_follow_the_end_phrase(text, value):
    assert check("startend:end_checker", text, end_phrase="The end") == value


@folded(
    ("text", "value"),
    [
        ("Les leçons des événements", 1),
        ("La leçon d'un événement", 1),
        ("Les lecons des événements", 0),
        ("Les leçons", 0),
        ("Les LEÇONS des ÉVÉNEMENTS", 1),
    ],
)
def test_plurals_of_accented_words(text, value):
    words = {"lecon": "leçon", "evenement": "événement"}
    assert check("fr:special_character:accents", text, word_to_accentuate=words) == value


@folded(
    ("prompt", "text", "value"),
    [
        ('Tutoie-le. Conclus avec : "Que puis-je faire pour vous ?"', "Bravo à toi. Que puis-je faire pour vous ?", 1),
        (
            "Tutoie-le. Conclus avec : « Que puis-je faire pour vous ? »",
            "Bravo à toi. Que puis-je faire pour vous ?",
            1,
        ),
        ("Tutoie-le.", "Bravo à toi. Que puis-je faire pour vous ?", 0),
        ("Tutoie-le.", "Je t'embrasse,\n[Votre nom]", 1),
        (
            'Conclus avec "Que puis-je faire pour vous ?"',
            "Asseyez-vous, mon ami. Tu vois ? Que puis-je faire pour vous ?",
            0,
        ),
    ],
)
def test_a_vous_that_the_prompt_demands(prompt, text, value):
    assert check("fr:detectable_content:informal_address", text, prompt) == value


def test_reading_a_prompt():
    assert allows_more("") is None
    assert allows_more("Is it so?") is None
    assert asks_for_at_least("Write at least three sections.", 3, "SECTION")
    assert not asks_for_at_least("Write three sections and at least four words.", 3, "SECTION")
    assert find_quotations('Say "one two" and « trois » and “four”.') == ["one two", "trois", "four"]


def test_items_of_benchmarks_look_at_the_prompt_too():
    one = {"instruction_id_list": ["detectable_format:constrained_response"], "kwargs": [{}]}
    for name, params in (("LiveBench", one), ("MultiIF", {"turns": [one]})):
        verifier = find_verifier(name)
        for prompt, value in ((f"It must contain one of {OPTIONS}", 1), (f"Just say {OPTIONS}", 0)):
            rollout = Rollout(prompt=prompt, response=REASONED)
            assert verifier.verify(rollout, verifier.check_parameters(params)).value == value, name
