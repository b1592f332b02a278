import subprocess
import sys

import pytest
from scripted import judge, question

from rubrank.errors import InvalidInput, UnknownName
from rubrank.judges import COMPARES, KINDS, count_calls, find_kind
from rubrank.judges.judge import load_judges

# Others may be registered in this process: by the laboratory, by tests of plug-ins.
OURS = [name for name, home in KINDS.items() if isinstance(home, str) and home.startswith("rubrank.judges.kinds")]


def test_every_kind_of_the_contract_is_there() -> None:
    assert set(OURS) == {"absolute", "batched", "decision", "pairwise", "listwise"}
    assert set(OURS) > {"pairwise", "listwise"} == COMPARES & set(OURS)
    for name in OURS:
        assert type(find_kind(name)).__name__.lower() == name


def test_an_unknown_kind() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'pairwise'"):
        find_kind("pairvise")


def test_calls_are_known_before_they_are_made() -> None:
    counts = {kind: count_calls(question(4), judge(kind=kind)) for kind in OURS}
    assert counts == {"absolute": 4, "batched": 4, "decision": 4, "pairwise": 12, "listwise": 1}


def test_importing_is_light() -> None:
    ours = "'rubrank.judges.prompting', 'rubrank.judges.client.client'"
    heavy = f"{{'openai', 'httpx2', 'numba', 'torch', 'polars', {ours}}}"
    code = f"import sys, rubrank.judges.step; print(sorted({heavy} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("kind", "setting", "value"),
    [
        ("absolute", "pairs", "swiss"),
        ("listwise", "pairs", 4),
        ("batched", "both_orders", False),
        ("pairwise", "passes", 2),
        ("batched", "state_tokens", 100),
        ("decision", "order", "data_first"),
        ("decision", "prompt", "Judge it.\n{response}"),
    ],
)
def test_a_setting_that_a_kind_would_ignore_is_refused(kind: str, setting: str, value: object) -> None:
    endpoint = {"base_url": "http://127.0.0.1:1/v1", "model": "m"}
    with pytest.raises(InvalidInput, match=f"{setting} must be used with kind .*got kind '{kind}'"):
        load_judges({"kind": kind, "endpoints": [endpoint], setting: value})
