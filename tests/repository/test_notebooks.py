"""The notebooks run, and print what they show."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cases import spread

nbformat = pytest.importorskip("nbformat", reason="pip install nbclient ipykernel")
nbclient = pytest.importorskip("nbclient", reason="pip install nbclient ipykernel")
pytest.importorskip("ipykernel", reason="pip install ipykernel")

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def printed(notebook) -> list[str]:
    """What each cell printed, whole: the kernel sends it in as many pieces as its clock happens to cut."""
    return [
        "".join(out["text"] for out in cell.outputs if out.output_type == "stream" and out.name == "stdout")
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def test_there_are_three():
    assert len(NOTEBOOKS) == 3


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_a_picture(path):
    notebook = nbformat.read(path, as_version=4)
    outputs = [out for cell in notebook.cells if cell.cell_type == "code" for out in cell.outputs]
    assert any("image/png" in out.get("data", {}) for out in outputs)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # Jupyter's own
@pytest.mark.parametrize("path", spread(NOTEBOOKS), ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_it_prints(path, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    notebook = nbformat.read(path, as_version=4)
    shown = printed(notebook)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert printed(notebook) == shown
    assert any(shown)
