"""Generate outputs for a benchmark's items, with anything that answers prompts; dialogues are asked turn by turn.

    generate = make_generator(model, tokenizer, max_tokens=256)        a Transformers model in this process
    rows = ask_items(find_benchmark("ifeval"), items, generate)
    score_rows(rows, find_benchmark("ifeval"))

The history of a dialogue contains the model's own answers without their reasoning, or the reference answers if the
benchmark's setting `history` is "reference". Inspect tasks use the same functions for dialogues.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from rubrank.evaluation.benchmark import Benchmark, Messages, Row
from rubrank.texts.reasoning import split_reasoning

Generator: TypeAlias = Callable[[Sequence[Messages]], Sequence[str]]
"""Prompts → outputs, in order."""


def group_dialogues(benchmark: Benchmark, items: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the turns of each dialogue in order, by the dialogue's id; any other item is a dialogue of one turn.

    An item that occurs again begins a repeat: a dialogue of its own, whose id ends with the number of the repeat.
    """
    dialogues: dict[str, list[Row]] = {}
    occurrences: Counter[str] = Counter()
    for item in items:
        item_id = benchmark.item_id(item)
        dialogue_id = item_id
        if "system_id" in item and "turn" in item:
            dialogue_id = str(item["system_id"])
        repeat = occurrences[item_id]
        occurrences[item_id] += 1
        if repeat > 0:
            dialogue_id = f"{dialogue_id}, repeat {repeat}"
        dialogues.setdefault(dialogue_id, []).append(item)
    for turns in dialogues.values():
        turns.sort(key=lambda item: int(item.get("turn") or 0))
    return dialogues


def extend_history(
    benchmark: Benchmark, turn: Row, history: Sequence[Any], output: str
) -> list[dict[str, str]]:
    """Return the history for the next turn: `history`, then the question and the answer of this turn."""
    answer = split_reasoning(output)[1]
    if benchmark.options.get("history") == "reference" and turn.get("reference_answer"):
        answer = str(turn["reference_answer"])
    question = str(turn.get("prompt", ""))
    return [
        *history,
        {"role": "user", "content": question},
        {"role": "assistant", "content": answer},
    ]


def ask_items(
    benchmark: Benchmark, items: Iterable[Row], generate: Generator
) -> list[dict[str, Any]]:
    """Generate an output for every item; returns the items, each with its history and its output.

    The first turns of all dialogues are generated together, then all second turns, and so on.
    """
    dialogues = list(group_dialogues(benchmark, items).values())
    histories: list[list[dict[str, str]]] = [[] for _ in dialogues]
    rows: list[dict[str, Any]] = []
    for turn_number in range(max(map(len, dialogues), default=0)):
        # Positions of the dialogues that have this turn.
        indices = [index for index, turns in enumerate(dialogues) if len(turns) > turn_number]
        asked_items = []
        for index in indices:
            turn = dialogues[index][turn_number]
            asked_items.append({**turn, "history": histories[index] or turn.get("history") or []})
        outputs = generate([benchmark.prompt(item) for item in asked_items])
        for index, item, output in zip(indices, asked_items, outputs, strict=True):
            rows.append({**item, "output": output})
            histories[index] = extend_history(benchmark, item, item["history"], output)
    return rows


def make_generator(
    model: Any, tokenizer: Any, *, max_tokens: int = 512, batch: int = 32
) -> Generator:
    """Make a generator of a Transformers model: greedy, in batches of prompts of similar length.

    Nothing is sampled, so evaluating a model during training does not change the rest of the run.
    """
    import torch

    def generate(prompts: Sequence[Messages]) -> list[str]:
        texts = [_render_prompt(tokenizer, prompt) for prompt in prompts]
        by_length = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        outputs = [""] * len(texts)
        was_training = model.training
        model.eval()
        try:
            with torch.no_grad():
                for start in range(0, len(by_length), batch):
                    indices = by_length[start : start + batch]
                    completions = _generate_batch(
                        model, tokenizer, [texts[i] for i in indices], max_tokens
                    )
                    for index, completion in zip(indices, completions, strict=True):
                        outputs[index] = completion
        finally:
            model.train(was_training)
        return outputs

    return generate


def _render_prompt(tokenizer: Any, prompt: Messages) -> str:
    """Apply the chat template; without one, join the messages' texts by line breaks."""
    messages = [dict(message) for message in prompt]
    if getattr(tokenizer, "chat_template", None):
        return str(
            tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        )
    return "\n".join(message["content"] for message in messages)


def _generate_batch(model: Any, tokenizer: Any, texts: list[str], max_tokens: int) -> list[str]:
    """Generate the completions of a batch of rendered prompts, greedily."""
    # A chat template writes the special tokens itself. Without one, the tokenizer must add them: base models such as
    # Llama expect a token for the beginning of the text.
    add_special_tokens = not getattr(tokenizer, "chat_template", None)
    # Padding goes to the left, because the completion must follow its prompt. The tokenizer belongs to the trainer,
    # so its settings are restored.
    side = tokenizer.padding_side
    has_pad_token = tokenizer.pad_token_id is not None
    tokenizer.padding_side = "left"
    if not has_pad_token:
        tokenizer.pad_token = tokenizer.eos_token
    try:
        inputs = tokenizer(
            texts, return_tensors="pt", padding=True, add_special_tokens=add_special_tokens
        ).to(model.device)
        pad_token_id = tokenizer.pad_token_id
    finally:
        tokenizer.padding_side = side
        if not has_pad_token:
            tokenizer.pad_token = None
    tokens = model.generate(
        input_ids=inputs["input_ids"],
        attention_mask=inputs["attention_mask"],
        max_new_tokens=max_tokens,
        do_sample=False,
        temperature=None,
        top_p=None,
        top_k=None,
        pad_token_id=pad_token_id,
    )
    prompt_length = inputs["input_ids"].shape[1]
    return [
        str(text)
        for text in tokenizer.batch_decode(tokens[:, prompt_length:], skip_special_tokens=True)
    ]
