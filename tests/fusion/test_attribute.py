from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from cases import folded

from rubrank.errors import InvalidInput, UnknownName
from rubrank.fusion.control.attribute import Attribute, flatten_texts
from rubrank.fusion.control.attributes import ATTRIBUTES, measure
from rubrank.fusion.control.length import lengths
from rubrank.fusion.control.markdown import MARKERS, markdown_density

TEXTS = [["<think>one two</think># Three", "**four**"], ["", "five\n\n- six"]]


@folded(
    ("texts", "flat", "shape"),
    [
        ([], [], (0,)),
        (["a", "b"], ["a", "b"], (2,)),
        (("a",), ["a"], (1,)),
        ([["a", "b"], ("c", "d")], ["a", "b", "c", "d"], (2, 2)),
        ([[], []], [], (2, 0)),
        ([[["a"]]], ["a"], (1, 1, 1)),
        (np.array([["a", "b"]]), ["a", "b"], (1, 2)),
        ((text for text in "ab"), ["a", "b"], (2,)),
    ],
)
def test_flatten(texts, flat, shape):
    assert flatten_texts("f", texts) == (flat, shape)


@folded(
    ("texts", "message"),
    [
        ("abc", r"f: texts must be a list of texts; got str 'abc'. Put a single text into a list"),
        (None, "texts must be a list of texts; got NoneType None"),
        (b"abc", "got bytes"),
        ({"a": "b"}, "got dict"),
        (["a", None], r"texts\[1\] must be a text; got NoneType None"),
        ([["a", "b"], ["c", 3]], r"texts\[1, 1\] must be a text; got int 3"),
        (["a", ["b"]], r"texts\[1\] must be a text; got list"),
        ([["a"], "b"], r"texts\[0\] must be a text; got list"),
        ([[{"role": "assistant", "content": "a"}]], r"texts\[0, 0\]"),
        ([["a"], ["b", "c"]], r"lists of the same length; got lengths \[1, 2\]"),
    ],
)
def test_flatten_refuses(texts, message):
    with pytest.raises(InvalidInput, match=message):
        flatten_texts("f", texts)


def test_measure_by_name():
    values, columns = measure(TEXTS, ["reasoning_length", "markdown", "total_length", "answer_length"])
    assert columns == ("reasoning_length", *MARKERS, "total_length", "answer_length")
    assert values.shape == (2, 2, 14)
    assert (values[..., 0] == lengths(TEXTS).reasoning).all()
    assert (values[..., 12] == lengths(TEXTS).total).all()
    assert (values[..., 13] == lengths(TEXTS).answer).all()


def test_markdown_is_measured_on_the_answer():
    values, _ = measure(["<think>\n\n# plan\n\n</think>\n\n# Title\n\ntext"], ["markdown"])
    assert (values == markdown_density(["# Title\n\ntext"])).all()


def test_measure_nothing():
    assert measure(TEXTS, []).values.shape == (2, 2, 0)
    assert measure([], list(ATTRIBUTES)).values.shape == (0, 15)


def letters(texts):
    flat, shape = flatten_texts("letters", texts)
    return np.reshape([len(text) for text in flat], (*shape, 1))


def test_an_attribute_of_ones_own(monkeypatch):
    own = Attribute("letters", ("letters",), letters)
    values, columns = measure(["abc", ""], ["answer_length", own])
    assert (values.tolist(), columns) == ([[1, 3], [0, 0]], ("answer_length", "letters"))
    monkeypatch.setitem(ATTRIBUTES, "letters", own)
    assert measure(["abc"], ["letters"]).values.tolist() == [[3]]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ([1, 2], r"the columns \('x',\); got shape \(2,\)"),
        ([[1, 2], [3, 4]], r"got shape \(2, 2\)"),
        ([[1], [-1]], "finite and at least 0; got -1"),
        ([[1], [np.nan]], "finite and at least 0; got nan"),
    ],
)
def test_a_broken_attribute(result, message):
    with pytest.raises(InvalidInput, match=f"attribute 'bad': measure must be .*{message}"):
        measure(["a", "b"], [Attribute("bad", ("x",), lambda texts: np.array(result))])


def test_an_attribute_with_rows_missing():
    with pytest.raises(InvalidInput, match=r"one row for each of the 2 texts.*; got shape \(1, 1\)"):
        measure(["a", "b"], [Attribute("bad", ("x",), lambda texts: np.ones((1, 1)))])


def test_names_are_checked():
    with pytest.raises(UnknownName, match="Did you mean 'markdown'"):
        measure(["a"], ["markdwon"])
    with pytest.raises(InvalidInput, match="names must be a list of names; got 'markdown'"):
        measure(["a"], "markdown")
    with pytest.raises(InvalidInput, match=r"without a column in common; got \['answer_length'\] twice"):
        measure(["a"], ["answer_length", "answer_length"])


def test_the_contract_is_light():
    code = (
        "import sys, rubrank.fusion.control.attribute; "
        "sys.exit(any(n in sys.modules for n in ('numba', 'torch', 'polars')))"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}, check=False).returncode
        == 0
    )
