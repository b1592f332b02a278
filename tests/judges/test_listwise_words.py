"""A list is judged in a shuffled order: the words that reach a rollout speak of rollouts, and are whole."""

from __future__ import annotations

import json

import pytest

from rubrank.judges.judge import Reply
from rubrank.judges.kinds.comparisons import name_rollouts
from rubrank.judges.parsing import read_listwise

ORDER = [7, 5, 0, 3]


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("Response 1 is clear, response 3 is not.", "rollout 7 is clear, rollout 0 is not."),
        ("Responses 2, 3 and 4 ramble.", "rollouts 5, 0 and 3 ramble."),
        ("Response #2 wins", "rollout 5 wins"),
        ("回复2和回复3更好", "rollout 5和rollout 0更好"),
        ("It took 2 hours; version 3 of Response 9.", "It took 2 hours; version 3 of Response 9."),
        ("correspondence 2", "correspondence 2"),
        (
            "1: Good. 2: Long, at 3: 40. 3: Wrong. 4: As response 1.",
            "1: Good. 2: Long, at 3: 40. 3: Wrong. 4: As rollout 7.",  # "3:" twice: no list of the responses
        ),
        ("1: Good. 2: Long. 3: Bad. 4: As 1.", "rollout 7: Good. rollout 5: Long. rollout 0: Bad. rollout 3: As 1."),
        ("", ""),
    ],
)
def test_places_become_rollouts(said: str, meant: str) -> None:
    assert name_rollouts(said, ORDER) == meant


def test_what_is_said_about_the_last_response_is_kept() -> None:
    said = " ".join(f"Response {i} {'is as good as one can be ' * 7}." for i in range(1, 9))
    ranks = {str(i): i for i in range(1, 9)}
    found, reason = read_listwise(Reply(json.dumps({"reasoning": said, "finding": [1], "verdict": ranks})), 8)
    assert found == (1, 2, 3, 4, 5, 6, 7, 8)
    assert "Response 8" in reason
