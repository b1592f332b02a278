"""The supervised start of a family: a Qwen3 of 0.1 million weights that gives middling answers.

make_policy(FACTS, folder, SHAPES["facts"])      a checkpoint with a tokenizer, which `rubrank train` can load, too
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rubrank_lab.family import END, PAD, Family


@dataclass(frozen=True)
class Shape:
    """The size of a policy, and how it is taught."""

    hidden: int = 64
    heads: int = 4
    layers: int = 2
    steps: int = 900
    batch: int = 48
    learning_rate: float = 4e-3


SHAPES = {"facts": Shape(), "kitchen": Shape(heads=2, steps=800)}


def make_tokenizer(family: Family) -> Any:
    """One token for each word or mark; a text is cut into them from left to right, the longest first."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    numbers = {token: number for number, token in enumerate(family.tokens)}
    raw = Tokenizer(models.WordLevel(numbers, unk_token=PAD))
    longest_first = sorted(family.tokens[2:], key=len, reverse=True)
    raw.pre_tokenizer = pre_tokenizers.Split(Regex("|".join(map(re.escape, longest_first))), behavior="isolated")
    raw.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=raw, pad_token=PAD, eos_token=END, padding_side="left")


def make_policy(family: Family, folder: Path, shape: Shape, seed: int = 0) -> None:
    """Teach a policy by cross-entropy on new examples and write it; the folder appears when it is complete."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    config = Qwen3Config(
        vocab_size=len(family.tokens),
        hidden_size=shape.hidden,
        intermediate_size=shape.hidden * 8 // 3 // 8 * 8,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        head_dim=shape.hidden // shape.heads,
        max_position_embeddings=160,
        tie_word_embeddings=True,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    model = Qwen3ForCausalLM(config)
    model.train()
    draws = random.Random(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=shape.learning_rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, shape.learning_rate, total_steps=shape.steps, pct_start=0.1
    )
    for step in range(shape.steps):
        loss = model(**make_examples(family, draws, shape.batch)).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 50 == 0 or step == shape.steps - 1:
            print(
                f"supervised step {step} of {shape.steps}: loss {float(loss.detach()):.3f}",
                flush=True,
            )
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    make_tokenizer(family).save_pretrained(unfinished)
    model.save_pretrained(unfinished)
    unfinished.rename(folder)


def make_examples(family: Family, draws: random.Random, batch: int) -> dict[str, Any]:
    """Prompts with middling answers; only the answers are learnt."""
    import torch

    rows = []
    starts = []
    for _ in range(batch):
        task = family.draw_task(draws)
        prompt = family.encode(task.prompt)
        rows.append([*prompt, *family.encode(family.write_answer(task, draws)), 1])
        starts.append(len(prompt))
    longest = max(map(len, rows))
    ids = torch.full((batch, longest), 0)
    labels = torch.full((batch, longest), -100)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row)
        labels[i, starts[i] : len(row)] = torch.tensor(row[starts[i] :])
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": labels}
