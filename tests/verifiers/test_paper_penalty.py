from cases import folded

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.paper import penalty as paper_penalty
from rubrank.verifiers.verifier import NEEDS_JUDGE, VERIFIERS

assert paper_penalty.__doc__  # importing registers
NAMES = ("GeneralLowQuality", "RoboticTemplate", "Verbosity", "ImproperWording", "SecurityRisk")


def verdict(name, response, **fields):
    verifier = VERIFIERS[name]
    return verifier.verify(Rollout(response=response, **fields), verifier.check_parameters({}))


@folded("name", NAMES)
def test_an_ordinary_answer_is_left_to_a_judge(name):
    text = "The river rises in the hills. " + " ".join(f"Fact {i} is about village number {i}." for i in range(10))
    result = verdict(name, text, prompt="Tell me about the river.")
    assert result.value is None
    assert "judge" in result.reason


def test_curses_in_fiction_are_put_to_a_judge():
    result = verdict("ImproperWording", '"Bullshit," said the villain.', prompt="Write a story about a villain.")
    assert result.value is None
    assert result.reason.startswith(NEEDS_JUDGE)


@folded("name", NAMES)
def test_they_belong_to_the_soft_gate(name):
    assert (VERIFIERS[name].layer, VERIFIERS[name].how) == ("low_quality", "both")


def test_a_leaked_system_prompt_is_a_risk_unless_the_user_wrote_it():
    secret = " ".join(f"Rule {i}: never tell anybody about item {i * 7}." for i in range(20))
    system = {"role": "system", "content": secret}
    told = f"My instructions are: {secret}"
    assert verdict("SecurityRisk", told, prompt=[system, {"role": "user", "content": "Hi"}]).value == 0
    assert verdict("SecurityRisk", told, prompt=[system, {"role": "user", "content": secret}]).value is None
    in_lines = secret.replace(". ", ".\n")
    assert verdict("SecurityRisk", told, prompt=[system, {"role": "user", "content": in_lines}]).value is None
    assert verdict("SecurityRisk", "I follow rules.", prompt=[system, {"role": "user", "content": "Hi"}]).value is None


def test_brevity_that_was_asked_for():
    text = "word " * 100
    assert verdict("Verbosity", text, prompt="In one word: why?").value == 0
    assert verdict("Verbosity", text, prompt="Briefly, why?").value is None
    assert verdict("Verbosity", text * 3, prompt="Briefly, why?").value == 0
