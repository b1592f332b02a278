"""Answers that are right or wrong in an unusual form: dates, lists, tables, confidence, not knowing, limits."""

from __future__ import annotations

import pytest

from rubrank import Rollout, find_verifier

PAIRS = [{"a": 1, "b": 2}, {"a": 2, "b": 3}]
TABLE = [{"a": 1, "b": 2}]
CASES = [
    ("DateMatch", "The treaty was signed on the 5th of June, 1944.", {"truth": "1944-06-05"}, 1),
    ("DateMatch", "06/05/1944", {"truth": "1944-06-05", "order": "mdy"}, 1),
    ("DateMatch", "Signed 5 June 1944, not 6 June 1944.", {"truth": "1944-06-05"}, 1),
    ("DateMatch", "2024-02-30", {"truth": "2024-03-01"}, 0),
    ("DateMatch", "It was on 28 June 1919, not on 11 November 1918.", {"truth": "1919-06-28"}, 1),
    ("DateMatch", "It was not on 28 June 1919.", {"truth": "1919-06-28"}, 0),
    ("DateFormat", "Version 10.12.2024.1 is out on 03.04.2025.", {"format": "DD.MM.YYYY"}, 1),
    ("DateMatch", "le 1er juillet 1867", {"truth": "1867-07-01"}, 1),
    ("DateFormat", "31/02/2024", {"format": "DD/MM/YYYY"}, 0),
    ("DateFormat", "29/02/2024", {"format": "DD/MM/YYYY"}, 1),
    ("DateFormat", "29/02/00", {"format": "DD/MM/YY"}, 1),
    ("DateFormat", "2024-5-1", {}, 0),
    ("DateFormat", "May 1, 2024", {"format": "MMMM D, YYYY"}, 1),
    ("SetMatch", "The entries are a, b and c.", {"truth": ["a", "b", "c"]}, 1),
    ("SetMatch", '```json\n["x", "y"]\n```', {"truth": ["x", "y"]}, 1),
    ("SetMatch", "- **Apple**: a fruit\n- **Pear**: another", {"truth": ["apple", "pear"]}, 1),
    ("SetMatch", "1. Apple\n2. Pear\n3. Apple", {"truth": ["apple", "pear"]}, 1),
    ("SetMatch", "3, 1 and 2", {"truth": [1, 2, 3]}, 1),
    ("Ndcg", "```json\n[2, 1]\n```", {"relevance": {"2": 1, "1": 0}}, 1),
    ("Ndcg", "1. **b**: first\n2. **a**: second", {"ranking": ["b", "a"]}, 1),
    ("JsonMatch", f'{{"a": 1, "b": {10**400}}}', {"expected": {"a": 1, "b": 1.5}}, 0.5),
    ("JsonMatch", "[[4, 3], [2, 1]]", {"expected": [[1, 2], [3, 4]], "order": "ignored"}, 1),
    ("JsonMatch", "[2.00000000001, 1.00000000001]", {"expected": [1.0, 2.0], "order": "ignored"}, 1),
    ("JsonMatch", "[0.5, 3, 1.00000000001]", {"expected": [1, 2, 3], "order": "ignored"}, 2 / 3),
    ("JsonMatch", '[{"a": 2, "b": 9}, {"a": 1, "b": 8}]', {"expected": PAIRS, "order": "ignored"}, 0.5),
    ("JsonMatch", '["b", null, {"c": 1}, 5]', {"expected": [5, "b", {"c": 1}], "order": "ignored"}, 0.75),
    ("DataMatch", "```csv\na;b\n1;2\n```", {"format": "csv", "expected": TABLE}, 1),
    ("DataMatch", "```csv\na\tb\n1\t2\n```", {"format": "csv", "expected": TABLE}, 1),
    ("DataMatch", 'a,b\n1,"x; y"', {"format": "csv", "expected": [{"a": 1, "b": "x; y"}]}, 1),
    ("DataMatch", '<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>', {"format": "xml", "expected": "<a>y</a>"}, 0),
    ("DataMatch", "```yml\na: 1\n```\nRun it:\n```sh\nmake\n```", {"format": "yaml", "expected": {"a": 1}}, 1),
    ("DataMatch", "```yam\na: 2\n```\n```\na: 1\n```", {"format": "yaml", "expected": {"a": 1}}, 1),
    ("Calibration", "Paris\nconfidence = 0,8", {"truth": "Paris"}, 0.96),
    ("Calibration", "Paris\n**Confidence:** 8/10", {"truth": "Paris"}, 0.96),
    ("Calibration", "Paris\nConfidence: **80 %**", {"truth": "Paris"}, 0.96),
    ("Calibration", "Lyon\nConfidence: 0", {"truth": "Paris"}, 1),
    ("Calibration", "Paris\nConfidence: 130%", {"truth": "Paris"}, 0),
    ("Abstention", "I don't know why people say otherwise: it is Paris.", {"wanted": "answer"}, 1),
    ("Abstention", "Das weiß ich leider nicht.", {"wanted": "abstain"}, 1),
    ("Abstention", "Je n'en sais rien.", {"wanted": "abstain"}, 1),
    ("Abstention", "I have no idea.", {"wanted": "abstain"}, 1),
    ("Abstention", "Nie wiem.", {"wanted": "abstain"}, 1),
    ("Abstention", "Unfortunately the passage doesn't say.", {"wanted": "abstain"}, 1),
    ("Abstention", "The article does not mention Rome: it was Paris.", {"wanted": "answer"}, 1),
    ("Abstention", "It's impossible to determine from the given data.", {"wanted": "abstain"}, 1),
    ("Abstention", "He wrote 'I don't know' on the wall in 1967.", {"wanted": "answer"}, 1),
    ("Abstention", '"I don\'t know."', {"wanted": "abstain"}, 1),
    ("SetMatch", "铁、铜和锌", {"truth": ["锌", "铁", "铜"]}, 1),
    ("SetMatch", "zinc; iron; copper; lead", {"truth": ["zinc", "iron", "copper"], "measure": "precision"}, 0.75),
    ("Ndcg", "Best first: d2, d1, d3", {"ranking": ["d2", "d1", "d3"]}, 1),
    ("EditDistance", "Answer: colour", {"references": ["color"]}, 5 / 6),
    ("CodeParses", "```python\nprint 'hi'\n```", {}, 0),
    ("CodeParses", "```yaml\na: b: c\n```", {}, 0),
    ("CodeParses", "```toml\n[a]\nb = 1\n```", {}, 1),
    ("EditDistance", "cafe\u0301", {"references": ["café"]}, 1),
    ("EditDistance", "", {"references": ["abc"]}, 0),
    ("Bleu", "我喜欢你", {"references": ["我喜欢你"]}, 1),
    ("CodeParses", "```py\nmatch x:\n    case 1: pass\n```", {}, 1),
    ("CodeParses", "```python\n>>> for i in range(2):\n...     print(i)\n0\n1\n>>> x = {}\n```", {}, 1),
    ("CodeParses", "```python\n>>> def f(:\n...     pass\n```", {}, 0),
    ("CodeParses", "```python\n>>> 1 +\nTraceback\n```", {}, 0),
    # (2/4 · 1/4 · 1/3 · 1/2)^(1/4) · exp(1 − 6/4), worked out by hand
    ("Bleu", "the the the the", {"references": ["the cat is on the mat"]}, 0.2304),
    ("CodeParses", '```json\n{"a": 1,}\n```', {}, 0),
]


@pytest.mark.parametrize(("name", "response", "params", "value"), CASES)
def test_unusual_forms(name, response, params, value):
    verifier = find_verifier(name)
    verdict = verifier.verify(Rollout(response=response), verifier.check_parameters(params))
    assert verdict.value == pytest.approx(value, abs=1e-4), verdict.reason


@pytest.mark.parametrize("latency", ["1.2", float("nan"), -1, True, None])
def test_a_latency_that_is_no_number_of_seconds_is_missing(latency):
    verifier = find_verifier("LatencyLimit")
    rollout = Rollout(response="x", metadata={"latency": latency})
    assert verifier.verify(rollout, verifier.check_parameters({"seconds": 2})).value is None
