"""Before a model is loaded: is it there, can its tokenizer chat, is everything installed.

chats = check_model(job, has_messages=True)      reads the model's config and tokenizer, which are small; no weights
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rubrank._plain import shortened
from rubrank.errors import InvalidInput
from rubrank.training.job.job import Job


def check_installed(job: Job) -> None:
    """TRL, and what the config asks for besides."""
    config = job.config
    wanted = {"trl": "pip install 'rubrank[trl]'"}
    if config.model.lora is not None:
        wanted["peft"] = "pip install peft, or leave model.lora out"
    if config.trl.get("use_vllm"):
        wanted["vllm"] = "pip install vllm, or leave trl.use_vllm out"
    wanted |= {name: f"pip install {name}, or change report_to" for name in config.report_to}
    for name, remedy in wanted.items():
        if find_spec(name) is None:
            raise InvalidInput(job.where, "the config", "runnable with what is installed", f"no {name}", f"{remedy}.")


def model_path(job: Job) -> str:
    """The folder of the model, or its name on the hub."""
    given = job.config.model.path
    folder = job.path(given)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            remedy = "Name the folder that holds the weights."
            raise InvalidInput(job.where, "model.path", "a folder with a config.json", str(folder), remedy)
        return str(folder)
    if given.startswith((".", "/", "~")) or given.count("/") != 1:
        remedy = "A name on the hub is owner/name."
        raise InvalidInput(job.where, "model.path", "a folder that exists, or a name on the hub", repr(given), remedy)
    return given


def check_model(job: Job, has_messages: bool) -> bool:
    """Can it be read; returns whether prompts are put to it as messages."""
    name, chat = model_path(job), job.config.model.chat
    template = _template(job, name)
    if chat is None:
        chat = template
    if chat and not template:
        remedy = "Set one, or choose a model that was tuned for chats."
        raise InvalidInput(job.where, "model.chat", "true only for a tokenizer with a chat template", "none", remedy)
    if has_messages and not chat:
        remedy = "Choose a model with a chat template, or data whose prompts are texts."
        raise InvalidInput(job.where, "model.path", "a model that takes messages, as the data has", repr(name), remedy)
    return chat


def _template(job: Job, name: str) -> bool:
    from transformers import AutoConfig, AutoTokenizer

    try:
        AutoConfig.from_pretrained(name)
        tokenizer: Any = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        local = Path(name).is_dir()
        allowed = "a folder that can be read" if local else "a folder that exists, or a name on the hub that answers"
        got = shortened(f"{job.config.model.path!r} ({' '.join(str(error).split())})", 240)
        raise InvalidInput(job.where, "model.path", allowed, got, "Check it, and the network.") from None
    return bool(tokenizer.chat_template)
