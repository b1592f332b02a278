"""The tiny policy of recipes/tiny_policy, made once, and jobs that train it."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

import yaml

from rubrank.training.job.config import Job, load_job

RECIPE = Path(__file__).parents[2] / "recipes" / "tiny_policy"


def make(folder: Path) -> Path:
    """The recipe's policy, prompts, rubric and config in a folder."""
    spec = importlib.util.spec_from_file_location("tiny_policy_make", RECIPE / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.make(folder)
    return folder


def copy_without_weights(made: Path, folder: Path) -> Path:
    """Whatever loads the model fails there."""
    shutil.copytree(made, folder, dirs_exist_ok=True)
    (folder / "policy" / "model.safetensors").write_bytes(b"")
    return folder


def config_of(folder: Path) -> dict[str, Any]:
    return dict(yaml.safe_load((folder / "config.yaml").read_text()))


def job(folder: Path, **changes: Any) -> Job:
    """The recipe's job with other values; `training__save_steps=2` goes into a section, None takes a key away."""
    config = config_of(folder)
    for name, value in changes.items():
        section, _, key = name.rpartition("__")
        place = config.setdefault(section, {}) if section else config
        place[key] = value
        if value is None:
            del place[key]
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(config, sort_keys=False))
    return load_job(file)
