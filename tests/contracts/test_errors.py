"""Errors: what a copy keeps, and whose code raised."""

import os

import pytest

import rubrank
from rubrank.errors import InvalidInput, is_library_file, only_our_errors


def test_an_error_among_others_keeps_its_field():
    first = InvalidInput("rubric.yaml", "item 3", "a number", "'x'", field="weight")
    other = InvalidInput("rubric.yaml", "item 4", "a number", "'y'")
    assert first.together_with([other]).field == "weight"


@pytest.mark.parametrize(
    ("name", "is_library"),
    [
        (rubrank.__file__, True),
        (os.__file__, True),
        ("numpy/random/mtrand.pyx", True),
        ("<frozen importlib._bootstrap>", True),
        (os.path.dirname(rubrank.__file__) + "_mine/rules.py", False),
        ("<stdin>", False),
        ("<ipython-input-3-0a1b2c>", False),
    ],
)
def test_whose_file_it_is(name, is_library):
    assert is_library_file(name) is is_library


def test_an_error_of_typed_code_passes_unchanged():
    namespace = {}
    exec(compile("def call():\n    raise TypeError('mine')", "<stdin>", "exec"), namespace)

    @only_our_errors
    def run(number: int, function: object) -> None:
        function()

    run.__wrapped__.__code__ = run.__wrapped__.__code__.replace(co_filename=rubrank.__file__)
    with pytest.raises(TypeError, match="mine"):
        run("1", namespace["call"])
