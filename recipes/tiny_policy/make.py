"""Make a tiny policy, prompts for it, and the config that trains it: python make.py FOLDER

The policy is a Qwen3 of two layers with random weights over a byte-level tokenizer. It shows that everything works
together, and nothing about language.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

THINGS = [
    "lakes",
    "tides",
    "rain",
    "bees",
    "clocks",
    "bread",
    "maps",
    "stars",
    "rivers",
    "winter",
    "paper",
    "stones",
    "birds",
    "salt",
    "wheels",
    "glass",
]
QUERIES = [f"Say something about {thing}." for thing in THINGS]
HELD_OUT = 4
"""The last so many are never trained on."""


def tokenizer() -> Any:
    """One token for each printable character, and some for what is frequent in the queries."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    ascii_bytes = [chr(code) for code in range(33, 127)] + [
        "Ġ",
        "Ċ",
    ]  # how byte-level tokenizers write space, newline
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=128,
        special_tokens=["<|pad|>", "<|end|>"],
        show_progress=False,
        initial_alphabet=ascii_bytes,
    )
    raw.train_from_iterator(QUERIES, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<|pad|>", eos_token="<|end|>", padding_side="left")


def policy(words: Any) -> Any:
    """Two layers, 30 thousand weights, drawn with a fixed seed."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=128,
        tie_word_embeddings=True,
        pad_token_id=words.pad_token_id,
        eos_token_id=words.eos_token_id,
        bos_token_id=words.eos_token_id,
    )
    return Qwen3ForCausalLM(config)


def write_rows(path: Path, queries: list[str]) -> None:
    """One query a line."""
    path.write_text("".join(json.dumps({"prompt": query}) + "\n" for query in queries), encoding="utf-8")


def make(folder: Path) -> None:
    """FOLDER/policy, prompts.jsonl, held_out.jsonl, rubric.yaml, config.yaml."""
    folder.mkdir(parents=True, exist_ok=True)
    words = tokenizer()
    words.save_pretrained(folder / "policy")
    policy(words).save_pretrained(folder / "policy")
    write_rows(folder / "prompts.jsonl", QUERIES[:-HELD_OUT])
    write_rows(folder / "held_out.jsonl", QUERIES[-HELD_OUT:])
    for name in ("rubric.yaml", "config.yaml"):
        if folder.resolve() != Path(__file__).resolve().parent:
            shutil.copy(Path(__file__).parent / name, folder / name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    make(parser.parse_args().folder)
