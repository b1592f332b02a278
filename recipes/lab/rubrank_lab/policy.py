"""The policy: a Qwen3 of a million weights with a tokenizer of its own, taught once by supervised examples.

make_policy(folder, steps=500)      folder/policy: tokenizer and weights; the same for everybody, by its seed
"""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

from rubrank_lab.world import END, PAD, answer, draw_ask, tokens


def tokenizer() -> Any:
    """One token for each word or mark; a text is cut into them from left to right, the longest first."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    known = tokens()
    raw = Tokenizer(models.WordLevel({token: number for number, token in enumerate(known)}, unk_token=PAD))
    longest = sorted(known[2:], key=len, reverse=True)
    raw.pre_tokenizer = pre_tokenizers.Split(Regex("|".join(map(re.escape, longest))), behavior="isolated")
    raw.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=raw, pad_token=PAD, eos_token=END, padding_side="left")


def policy(words: Any, seed: int = 0, hidden: int = 200, layers: int = 2) -> Any:
    """Random weights."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(words),
        hidden_size=hidden,
        intermediate_size=hidden * 8 // 3 // 8 * 8,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=hidden // 4,
        max_position_embeddings=160,
        tie_word_embeddings=True,
        pad_token_id=words.pad_token_id,
        eos_token_id=words.eos_token_id,
        bos_token_id=None,
    )
    return Qwen3ForCausalLM(config)


def make_policy(folder: Path, steps: int, seed: int = 0, batch: int = 64, rate: float = 2e-3, **shape: int) -> None:
    """Teach it; written to its end or not at all."""
    words = tokenizer()
    model = policy(words, seed, **shape)
    teach(model, words, steps, random.Random(seed), batch, rate)
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    words.save_pretrained(unfinished)
    model.save_pretrained(unfinished)
    unfinished.rename(folder)


def teach(model: Any, words: Any, steps: int, chance: random.Random, batch: int, rate: float) -> None:
    """Cross-entropy on answers; each example is new."""
    import torch

    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps, pct_start=0.1)
    for step in range(steps):
        loss = model(**_examples(words, chance, batch)).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 50 == 0 or step == steps - 1:
            print(f"supervised step {step} of {steps}: loss {float(loss):.3f}", flush=True)


def _examples(words: Any, chance: random.Random, batch: int) -> dict[str, Any]:
    import torch

    rows, starts = [], []
    for _ in range(batch):
        ask = draw_ask(chance)
        prompt = words(ask.prompt)["input_ids"]
        rows.append([*prompt, *words(answer(ask, chance))["input_ids"], words.eos_token_id])
        starts.append(len(prompt))
    longest = max(map(len, rows))
    ids = torch.full((batch, longest), words.pad_token_id)
    labels = torch.full((batch, longest), -100)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row)
        labels[i, starts[i] : len(row)] = torch.tensor(row[starts[i] :])
    mask = (ids != words.pad_token_id).long()
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}
