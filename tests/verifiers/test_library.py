"""Everything that the library promises is there, under exactly this name."""

import subprocess
import sys

import pytest
from cases import folded
from library import load_all

from rubrank.rubrics.catalogue import KNOWN

LIBRARY = load_all()


def names(text):
    return text.split()


def ids(group, text):
    return [f"{group}:{name}" for name in names(text)]


IFEVAL = [
    *ids("keywords", "existence frequency forbidden_words letter_frequency"),
    *ids("language", "response_language"),
    *ids("length_constraints", "number_sentences number_paragraphs number_words nth_paragraph_first_word"),
    *ids("detectable_content", "number_placeholders postscript"),
    *ids("detectable_format", "number_bullet_lists constrained_response number_highlighted_sections"),
    *ids("detectable_format", "multiple_sections json_format title"),
    *ids("combination", "two_responses repeat_prompt"),
    *ids("startend", "end_checker quotation"),
    *ids("change_case", "capital_word_frequency english_capital english_lowercase"),
    *ids("punctuation", "no_comma"),
]
IFBENCH = [
    *ids("count", "word_count_range unique_word_count conjunctions person_names numbers punctuation words_japanese"),
    *ids("count", "pronouns keywords_multiple"),
    *ids("ratio", "stop_words sentence_type sentence_balance overlap sentence_words"),
    *ids(
        "words", "alphabet vowel consonants palindrome prime_lengths start_verb repeats odd_even_syllables last_first"
    ),
    *ids("words", "paragraph_last_first no_consecutive keywords_specific_position words_position"),
    *ids("sentence", "alliteration_increment keyword increment"),
    *ids("format", "parentheses quotes options newline emoji line_indent quote_unquote list thesis sub-bullets"),
    *ids("format", "no_bullets_bullets title_case output_template no_whitespace"),
    *ids("custom", "multiples mcq_count_length reverse_newline word_reverse character_reverse sentence_alphabet"),
    *ids("custom", "european_capitals_sort csv_city csv_special_character csv_quotes date_format_list"),
    *ids("repeat", "repeat_change repeat_simple repeat_span"),
]
IF_RLVR = [
    *ids("copy", "repeat_phrase copy copying_simple copying_multiple"),
    *ids("new", "copy_span_idx"),
    *ids("detectable_format", "sentence_hyphens square_brackets bigram_wrapping"),
    *ids("keywords", "no_adjacent_consecutive word_once word_count_different_numbers exclude_word_harder palindrome"),
    *ids("keywords", "keyword_specific_position start_end"),
    *ids("paragraphs", "paragraphs paragraphs2"),
    *ids("first_word", "first_word_sent first_word_answer"),
    *ids("last_word", "last_word_sent last_word_answer"),
    *ids("punctuation", "punctuation_dot punctuation_exclamation"),
    *ids("count", "lowercase_counting counting_composition count_unique count_increment_word"),
    *ids("letters", "letter_counting letter_counting2"),
]
M_IFEVAL = [
    *ids("es:special_character", "tildes dieresis enie"),
    *ids("es:punctuation", "question_marks exclamation_marks"),
    *ids("fr:special_character", "accents no_accents ethel_or_cedilla"),
    *ids("fr:detectable_content", "informal_address no_digits"),
    *ids("ja:letters", "furigana kanji kansuuji hiragana_only katakana_only no_hiragana no_katakana"),
    *ids("ja:detectable_format", "nominal_ending number_numbered_lists"),
    *ids("ja:length_constraints", "number_letters"),
    *ids("ja:punctuation", "no_period"),
    *ids("ja:startend", "sentence_unified_end"),
]
BY_PROGRAM = names("""
    GeneralFormatCompliance FormatRequirement BulletCount HighlightCount ParagraphCount CaseFormat TitleFormat
    QuotationFormat Postscript PromptRepeat ConstrainedResponse ConstrainedWriting SummaryRecall
    IFBench MultiIF Collie ComplexBench LiveBench
    WordCount SentenceCount EntryCount LetterFrequency LanguageRequirement LanguageDetection DictionRequirement
    Keyword ForbiddenContent GroundTruthMatch
    RepeatSegment Truncated EmptyAnswer GarbledText ThinkLeak WrongLanguage
    TestsPass PatchApplies ToolCallValid ToolCallMatch ToolArgsMatch FinalStateMatch TrajectoryEfficiency NoToolError
""")
BY_JUDGE = names("""
    GeneralQuality BusinessScenarioQuality CoreIntentMatch TaskTypeMatch CoreFactAccuracy NonCoreFactAccuracy
    MaterialFaithfulness MultiTurnMemory TextTypeMatch CrossLingualInstruction DialogueStyle RoleConsistency
    CapabilityBoundary Affectation LogicalError UnrealisticContent
""")
# Judged, and not named by the paper.
BEYOND_THE_PAPER = names("ContextPrecision ContextRecall AnswerRelevance InstructionHierarchy InjectionResistance")
# Judged, with signals that a program sees.
SIGNALS = names("GeneralLowQuality RoboticTemplate Verbosity ImproperWording SecurityRisk")
LISTS = {"ifeval": IFEVAL, "ifbench": IFBENCH, "if_rlvr": IF_RLVR, "m_ifeval": M_IFEVAL}


@pytest.mark.parametrize(("family", "count"), [("ifeval", 25), ("ifbench", 58), ("if_rlvr", 29), ("m_ifeval", 22)])
def test_every_public_instruction_is_there_and_no_other(family, count):
    assert len(set(LISTS[family])) == count
    assert {name for name, verifier in LIBRARY.items() if verifier.family == family} == set(LISTS[family])


@folded("name", BY_PROGRAM + SIGNALS)
def test_what_a_program_decides_has_a_verifier(name):
    verifier, known = LIBRARY[name], KNOWN[name]
    assert (verifier.family, verifier.layer, verifier.how) == (known.family, known.layer, known.how)
    assert verifier.domain == known.domain


@folded("name", BY_JUDGE + BEYOND_THE_PAPER)
def test_what_a_judge_decides_is_declared(name):
    assert KNOWN[name].how == "judge"
    assert name not in LIBRARY


def test_the_paper_names_nothing_else():
    assert set(BY_PROGRAM) | set(SIGNALS) | set(BY_JUDGE) == set(KNOWN) - set(BEYOND_THE_PAPER)


def test_more_than_180_criteria():
    assert len(LIBRARY) > 180
    assert len(LIBRARY.keys() | KNOWN.keys()) > 190


def test_looking_one_up_finds_them_all():
    code = "from rubrank.verifiers.verifier import *; is_verifier('x'); print(len(VERIFIERS))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(found.stdout) == len(LIBRARY), "a module is not in FAMILIES"
