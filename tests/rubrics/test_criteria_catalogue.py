from cases import folded

from rubrank.rubrics.catalogue import KNOWN
from rubrank.verifiers import load
from rubrank.verifiers.verifier import VERIFIERS

load()
ELSEWHERE = ("benchmark", "agentic")


BEYOND_THE_PAPER = 5  # judged: retrieval, instruction hierarchy and injection


def test_every_name_of_the_paper_is_known():
    assert len(KNOWN) == 63 + BEYOND_THE_PAPER
    assert all(name == criterion.name and criterion.checks for name, criterion in KNOWN.items())


@folded("name", [c.name for c in KNOWN.values() if c.how != "judge" and c.family not in ELSEWHERE])
def test_what_a_program_decides_has_a_verifier_that_agrees(name):
    known, found = KNOWN[name], VERIFIERS[name]
    assert (found.family, found.layer, found.how, found.domain) == (known.family, known.layer, known.how, known.domain)


def test_what_only_a_judge_decides_has_no_verifier():
    judged = [name for name, criterion in KNOWN.items() if criterion.how == "judge"]
    assert len(judged) == 16 + BEYOND_THE_PAPER
    assert not [name for name in judged if name in VERIFIERS]


def test_every_docstring_says_what_it_does_not_decide():
    for name in KNOWN:
        if name in VERIFIERS and KNOWN[name].family not in ELSEWHERE:
            doc = " ".join(VERIFIERS[name].doc.split())
            assert "Not covered" in doc or "issing" in doc, name
