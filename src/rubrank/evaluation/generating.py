"""A model in this process as something that answers prompts: greedy, in batches of prompts of about the same length.

    ask = answers_of(model, tokenizer, max_tokens=256)
    ask([[{"role": "user", "content": "Say hello."}]])         ["Hello!"]

Nothing is drawn at random, so that a training run that is looked at on its way goes on as if it had not been.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rubrank.evaluation.asking import Ask
from rubrank.evaluation.benchmark import Messages


def answers_of(model: Any, tokenizer: Any, *, max_tokens: int = 512, batch: int = 32) -> Ask:
    """Prompts → outputs by a Transformers model and its tokenizer."""
    import torch

    def ask(prompts: Sequence[Messages]) -> list[str]:
        texts = [prompt_text(tokenizer, prompt) for prompt in prompts]
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        outputs = [""] * len(texts)
        was_training = model.training
        model.eval()
        try:
            with torch.no_grad():
                for start in range(0, len(order), batch):
                    some = order[start : start + batch]
                    made = _generated(model, tokenizer, [texts[i] for i in some], max_tokens)
                    for i, output in zip(some, made, strict=True):
                        outputs[i] = output
        finally:
            model.train(was_training)
        return outputs

    return ask


def prompt_text(tokenizer: Any, prompt: Messages) -> str:
    """By the chat template; a tokenizer without one gets the messages' texts, one below the other."""
    messages = [dict(message) for message in prompt]
    if getattr(tokenizer, "chat_template", None):
        return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    return "\n".join(message["content"] for message in messages)


def _generated(model: Any, tokenizer: Any, texts: list[str], max_tokens: int) -> list[str]:
    """Padded on the left, as whatever is generated must follow its prompt; the tokenizer is left as it was."""
    side = tokenizer.padding_side
    tokenizer.padding_side = "left"
    try:
        given = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False).to(model.device)
    finally:
        tokenizer.padding_side = side
    made = model.generate(
        input_ids=given["input_ids"],
        attention_mask=given["attention_mask"],
        max_new_tokens=max_tokens,
        do_sample=False,
        temperature=None,
        top_p=None,
        top_k=None,
        pad_token_id=tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id,
    )
    length = given["input_ids"].shape[1]
    return [str(text) for text in tokenizer.batch_decode(made[:, length:], skip_special_tokens=True)]
