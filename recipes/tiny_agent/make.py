"""Make a tiny policy that can call a calculator, questions for it, and the config that trains it: python make.py FOLDER

The policy is a Qwen3 of two layers. It is shown a few dozen conversations first, some of which call the tool `add` and
say what came back, and some of which guess: so that it knows the form of a call, and makes one now and then. That is
all that reinforcement needs to begin with.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
from functools import cache, partial
from pathlib import Path
from typing import Any

from calculator import add

SHOWN = 900
"""Steps of the first lessons."""
GUESSES = 0.5
"""Share of the conversations shown that guess."""
PAIRS = [(a, b) for a in range(10) for b in range(10)]
HELD_OUT = [(a, b) for a, b in PAIRS if (a + 3 * b) % 10 == 0]
_SAID = re.compile(r"<\|im_start\|>assistant\n(.*?<\|im_end\|>)", re.DOTALL)


def question(a: int, b: int) -> str:
    """What the user asks."""
    return f"{a} plus {b}?"


def conversation(a: int, b: int, calls: bool) -> list[dict[str, Any]]:
    """Asked, computed or guessed, answered."""
    asked = {"role": "user", "content": question(a, b)}
    if not calls:
        return [asked, {"role": "assistant", "content": f"It is {(7 * a + b) % 19}."}]
    call = {"type": "function", "function": {"name": "add", "arguments": {"a": a, "b": b}}}
    return [
        asked,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": "add", "content": add(a, b)},
        {"role": "assistant", "content": f"It is {add(a, b)}."},
    ]


def tokenizer() -> Any:
    """Trained on what the policy reads, so that the description of the tool takes few tokens; digits stay single."""
    import trl
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(models.BPE())
    cut = [
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
    ]
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.Sequence(cut), decoders.ByteLevel()
    alphabet = [chr(code) for code in range(33, 127)] + ["Ġ", "Ċ"]
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    raw.add_special_tokens(special)
    raw.add_tokens([AddedToken(f"<{slash}tool_{kind}>") for kind in ("call", "response") for slash in ("", "/")])
    words = PreTrainedTokenizerFast(tokenizer_object=raw, pad_token=special[0], eos_token=special[2])
    words.chat_template = (Path(trl.__file__).parent / "chat_templates" / "qwen2_5.jinja").read_text(encoding="utf-8")
    texts = [rendered(words, conversation(a, b, calls)) for a, b in PAIRS for calls in (True, False)]
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=special, show_progress=False, initial_alphabet=alphabet
    )
    raw.train_from_iterator(texts, trainer)
    raw.add_tokens([AddedToken(f"<{slash}tool_{kind}>") for kind in ("call", "response") for slash in ("", "/")])
    made = PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token=special[0], eos_token=special[2], padding_side="left"
    )
    made.chat_template = words.chat_template
    return made


def rendered(words: Any, messages: list[dict[str, Any]]) -> str:
    """A conversation as the policy reads it."""
    from transformers.utils import get_json_schema

    return str(words.apply_chat_template(messages, tools=[get_json_schema(add)], tokenize=False))


def policy(words: Any) -> Any:
    """Two layers, drawn with a fixed seed."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(words),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=16,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        pad_token_id=words.pad_token_id,
        eos_token_id=words.eos_token_id,
        bos_token_id=words.eos_token_id,
    )
    return Qwen3ForCausalLM(config)


def lesson(words: Any, a: int, b: int, calls: bool) -> tuple[list[int], list[int]]:
    """Tokens of a conversation, and the same with −100 where another than the policy speaks."""
    text = rendered(words, conversation(a, b, calls))
    own = [(m.start(1), m.end(1)) for m in _SAID.finditer(text)]
    coded = words(text, return_offsets_mapping=True)
    said = [any(first <= at < last for first, last in own) for at, _ in coded["offset_mapping"]]
    ids = coded["input_ids"]
    return ids, [i if mine else -100 for i, mine in zip(ids, said, strict=True)]


def padded(rows: list[tuple[list[int], list[int]]]) -> tuple[Any, Any]:
    """Lessons of one length, as tensors."""
    import torch

    longest = max(len(ids) for ids, _ in rows)
    ids = [ids + [0] * (longest - len(ids)) for ids, _ in rows]
    return torch.tensor(ids), torch.tensor([own + [-100] * (longest - len(own)) for _, own in rows])


def teach(model: Any, words: Any, steps: int) -> float:
    """Show conversations about pairs that are not held out; the last loss."""
    import torch

    draw, seen = random.Random(0), [pair for pair in PAIRS if pair not in HELD_OUT]
    once = cache(partial(lesson, words))  # writing a conversation takes longer than learning from it
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loss = torch.tensor(0.0)
    for step in range(steps):
        chosen = [(*draw.choice(seen), draw.random() > GUESSES) for _ in range(16)]
        ids, own = padded([once(*one) for one in chosen])
        optimizer.param_groups[0]["lr"] = 3e-3 * min(1.0, 2.0 * (1.0 - step / steps))
        loss = model(input_ids=ids, labels=own).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return float(loss.detach())


def write_rows(path: Path, pairs: list[tuple[int, int]]) -> None:
    """One question a line, with its own criterion: the right sum."""
    rows = [
        {
            "prompt": [{"role": "user", "content": question(a, b)}],
            "rubric": [
                {
                    "name": "Right",
                    "verifier": "startend:end_checker",
                    "params": {"end_phrase": f"It is {add(a, b)}."},
                }
            ],
        }
        for a, b in pairs
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def make(folder: Path, shown: int = SHOWN) -> float:
    """FOLDER/policy, prompts.jsonl, held_out.jsonl, rubric.yaml, config.yaml, calculator.py; the last loss."""
    folder.mkdir(parents=True, exist_ok=True)
    words = tokenizer()
    model = policy(words)
    loss = teach(model, words, shown)
    words.save_pretrained(folder / "policy")
    model.save_pretrained(folder / "policy")
    write_rows(folder / "prompts.jsonl", [pair for pair in PAIRS if pair not in HELD_OUT])
    write_rows(folder / "held_out.jsonl", HELD_OUT)
    for name in ("rubric.yaml", "config.yaml", "calculator.py"):
        if folder.resolve() != Path(__file__).resolve().parent:
            shutil.copy(Path(__file__).parent / name, folder / name)
    return loss


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("batches", type=int, nargs="?", default=SHOWN, help="of conversations to pretrain on")
    options = parser.parse_args()
    print(f"loss {make(options.folder, options.batches):.3f}")
