"""Compound units in numeric truths: 72 km/h is 20 m/s, and not 72 m/s."""

from __future__ import annotations

import pytest

from rubrank import Rollout, find_verifier


@pytest.mark.parametrize(
    ("truth", "answer", "value"),
    [
        ("72 km/h", "72 m/s", 0),
        ("72 km/h", "20 m/s", 1),
        ("72 km/h", "72", 1),
        ("72 km/h", "It drives at 72 metres per second.", 0),
        ("72 km/h", "It drives at 72 kilometers per hour.", 1),
        ("72 km/h", "速度是20米/秒。", 1),
        ("50 km/h", "50 km", 0),
        ("9.8 m/s^2", "9.8 m/s", 0),
        ("9.8 m/s²", "$9.8 \\text{ m/s}^2$", 1),
        ("1000 kg/m^3", "1 g/cm^3", 1),
        ("60 mph", "60 miles per hour", 1),
        ("60 mph", "60 km/h", 0),
        ("$15 per hour", "$15", 1),
        ("3e8 m/s", "$3.0 \\times 10^{8}$ m/s", 1),
        ("150 cm", "1.5米", 1),
    ],
)
def test_numeric(truth, answer, value):
    verifier = find_verifier("GroundTruthMatch")
    params = verifier.check_parameters({"truth": truth, "mode": "numeric"})
    assert verifier.verify(Rollout(response=answer), params).value == value


@pytest.mark.parametrize("answer", ["六十千米每小时", "60千米/小时", "答案是六十公里每小时"])
def test_chinese_numerals_before_units(answer):
    pytest.importorskip("pint")
    verifier = find_verifier("QuantityMatch")
    assert verifier.verify(Rollout(response=answer), verifier.check_parameters({"truth": "60 km/h"})).value == 1
