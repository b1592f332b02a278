"""Text from the small model, and JSON from it that holds to a schema.

    writer = Writer(Engine(), prompt_ids, {"temperature": 0.0, "max_tokens": 64})
    writer.value({"type": "object", "properties": {"reasoning": {"type": "string"}, "verdict": {"enum": [0, 1]}}}, [""])
    tokenizer.decode(writer.ids)            {"reasoning": "The response is short and clear.", "verdict": 1}

What a schema fixes is written; the rest the model chooses among the tokens that fit: which value of an enum, how many
items of an array, the words of a string. The log-probabilities kept are those of that choice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any

import torch
from small_model import load
from transformers import DynamicCache

LONGEST_STRING = 12  # tokens: a model of this size has nothing more to say, and the tests do not read it
MOST_ITEMS = 4  # of an array whose schema sets no limit


class RefusedError(ValueError):
    """The request asks for what this server does not do; the text goes to the client with status 400."""


class OutOfTokensError(Exception):
    """max_tokens is reached: the reply ends where it is."""


class Engine:
    """The model, its vocabulary, and the attention cache of the last prompt, whose beginning the next may share."""

    def __init__(self) -> None:
        torch.set_num_threads(1)  # as fast as two for one token after another, and much faster where cores are busy
        self.model, self.tokenizer = load()
        self.cache = DynamicCache()
        self.cached_ids: list[int] = []
        texts = self.tokenizer.batch_decode([[i] for i in range(len(self.tokenizer))])
        printable = [i for i, text in enumerate(texts) if text and i not in self.tokenizer.all_special_ids]
        plain = [i for i in printable if _fits_a_string(texts[i])]
        self.closing = {i for i in printable if texts[i].endswith('"') and _fits_a_string(texts[i][:-1])}
        self.in_string = torch.tensor(plain + sorted(self.closing))

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False)

    def reuse(self, ids: Sequence[int]) -> int:
        """Cut the cache back to the beginning that it shares with this prompt; its length."""
        ours = ids[:-1]  # the last token is always read, for what follows it
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(ours, self.cached_ids, strict=False)))
        if same:
            self.cache.crop(same - len(self.cached_ids))
        else:
            self.cache = DynamicCache()
        self.cached_ids = list(ours[:same])
        return same

    @torch.inference_mode()
    def read(self, ids: Sequence[int]) -> torch.Tensor:
        """The log-probabilities of what follows, after these tokens too."""
        out = self.model(torch.tensor([ids]), past_key_values=self.cache, use_cache=True, logits_to_keep=1)
        self.cached_ids.extend(ids)
        return torch.log_softmax(out.logits[0, -1], dim=-1)


def _fits_a_string(text: str) -> bool:
    """Can it stand in a JSON string as it is? Pieces of characters cannot."""
    return text.isprintable() and not set(text) & {'"', "\\", "\ufffd"}


class Writer:
    """Writes one reply, token by token: what is fixed, and what the model chooses."""

    def __init__(self, engine: Engine, prompt: Sequence[int], request: Mapping[str, Any]) -> None:
        self.engine = engine
        self.most = int(request.get("max_completion_tokens") or request.get("max_tokens") or 1024)
        if len(prompt) + self.most > engine.model.config.max_position_embeddings:
            raise RefusedError(
                f"{len(prompt)} tokens of prompt and {self.most} of reply exceed the context of the model."
            )
        self.temperature = float(request.get("temperature", 1.0))
        self.top_p = float(request.get("top_p") or 1.0)
        self.top = int(request.get("top_logprobs") or 0)
        seed = request.get("seed")
        self.random = torch.Generator()
        self.random.seed() if seed is None else self.random.manual_seed(int(seed))
        self.ids: list[int] = []
        self.logprobs: list[dict[str, Any]] = []
        self.reused = engine.reuse(prompt)
        self.unread = list(prompt[self.reused :])

    def fixed(self, text: str) -> None:
        self._add_all(self.engine.encode(text))

    def chosen(self, allowed: torch.Tensor | None = None) -> int:
        """One token of the model's choice, among those allowed."""
        logprobs, self.unread = self.engine.read(self.unread), []
        if allowed is not None:
            only = torch.full_like(logprobs, -torch.inf)
            only[allowed] = logprobs[allowed]
            logprobs = torch.log_softmax(only, dim=-1)
        token = self._draw(logprobs)
        best = logprobs.topk(self.top)
        top = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        self._add(token, float(logprobs[token]), [(other, p) for other, p in top if p > -torch.inf])
        return token

    def _draw(self, logprobs: torch.Tensor) -> int:
        if self.temperature == 0:
            return int(logprobs.argmax())
        probabilities, order = torch.softmax(logprobs / self.temperature, dim=-1).sort(descending=True)
        probabilities[probabilities.cumsum(-1) - probabilities >= self.top_p] = 0.0  # all but the nucleus
        return int(order[torch.multinomial(probabilities, 1, generator=self.random)])

    def _add_all(self, ids: Iterable[int]) -> None:
        """Tokens that had to come: their probability is 1."""
        for token in ids:
            self._add(token, 0.0, [(token, 0.0)])

    def _add(self, token: int, logprob: float, top: Sequence[tuple[int, float]]) -> None:
        if len(self.ids) == self.most:
            raise OutOfTokensError
        tops = [self._entry(*other) for other in top[: self.top]]
        self.logprobs.append({**self._entry(token, logprob), "top_logprobs": tops})
        self.ids.append(token)
        self.unread.append(token)

    def _entry(self, token: int, logprob: float) -> dict[str, Any]:
        return {"token": self.engine.tokenizer.decode([token]), "logprob": logprob, "bytes": None}

    def text(self) -> None:
        """Free text, until the model ends it."""
        while self.chosen() != self.engine.tokenizer.eos_token_id:
            pass
        self.ids.pop()
        self.logprobs.pop()

    def one_of(self, options: Iterable[str]) -> str:
        """One of these texts: down the tree of their tokens, a choice wherever it branches."""
        left, at = {tuple(self.engine.encode(option)): option for option in options}, 0
        while len(left) > 1:
            token = self.chosen(torch.tensor(sorted({ids[at] for ids in left})))
            left = {ids: option for ids, option in left.items() if ids[at] == token}
            at += 1
        ((ids, option),) = left.items()
        self._add_all(ids[at:])
        return option

    def value(self, schema: Mapping[str, Any], ends: Sequence[str]) -> str:
        """A value that fits the schema, and then one of the characters that may follow it; the latter is returned."""
        while "anyOf" in schema:
            schema = schema["anyOf"][0]
        if values := _values(schema):
            return self.one_of(f" {json.dumps(v, ensure_ascii=False)}{end}" for v in values for end in ends)[-1]
        match _type(schema):
            case "number":
                return self._number(ends)
            case "string":
                self._string()
            case "object" if schema.get("properties"):
                self._object(schema["properties"])
            case "array" if "items" in schema:
                self._array(schema)
            case _:
                raise RefusedError(f"response_format: no reply can be held to {json.dumps(schema)[:200]} here.")
        return self.one_of(ends)

    def _number(self, ends: Sequence[str]) -> str:
        """Not negative, of at most four digits."""
        self.fixed(" ")
        text = ""
        while not text or text[-1] not in ends:
            more = [] if text == "0" or sum(map(str.isdigit, text)) == 4 else list("0123456789")
            point = ["."] if 0 < len(text) < 4 and "." not in text else []
            text += self.one_of([*more, *point, *(ends if text and text[-1] != "." else ())])
        return text[-1]

    def _string(self) -> None:
        self.fixed(' "')
        for _ in range(LONGEST_STRING):
            if self.chosen(self.engine.in_string) in self.engine.closing:
                return
        self.fixed('"')

    def _object(self, properties: Mapping[str, Mapping[str, Any]]) -> None:
        self.fixed(" {" if self.ids else "{")
        for i, (name, schema) in enumerate(properties.items(), start=1):
            self.fixed(f"{' ' if i > 1 else ''}{json.dumps(name, ensure_ascii=False)}:")
            self.value(schema, "," if i < len(properties) else "}")

    def _array(self, schema: Mapping[str, Any]) -> None:
        self.fixed(" [")
        least, most = schema.get("minItems", 1), schema.get("maxItems", MOST_ITEMS)
        for n in range(1, most + 1):
            if self.value(schema["items"], "," if n < least else "]" if n == most else ",]") == "]":
                return


def _values(schema: Mapping[str, Any]) -> list[Any]:
    """All values that the schema allows, where they can be listed."""
    if "const" in schema:
        return [schema["const"]]
    if "enum" in schema:
        return list(schema["enum"])
    if _type(schema) == "boolean":
        return [True, False]
    if _type(schema) == "integer" and "minimum" in schema and "maximum" in schema:
        return list(range(schema["minimum"], schema["maximum"] + 1))
    return []


def _type(schema: Mapping[str, Any]) -> str | None:
    """Of several types, or alternatives, the first is written: less than the schema allows, and never more."""
    types = schema.get("type")
    return types[0] if isinstance(types, list) else types
