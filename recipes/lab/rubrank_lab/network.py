"""Small decoders, several of one shape side by side, written for speed on one core.

    network = Network.load(folder, copies=11)               eleven copies of a Qwen3 checkpoint, each with own weights
    samples = network.sample(prompts, 8, 52, generator)     every copy gives eight responses to each prompt
    network.log_probabilities(prompts, samples)             of every sampled token, with gradients

The arms of an experiment start from the same policy and see the same prompts, so they can be trained side by side: a
weight has one more axis, the copies, and an operation serves all of them. For so small a network most of the time
would otherwise go into starting operations. Two more things help. A prompt is computed once for all responses to it,
and weights are applied to a list of the tokens that exist; only attention sees a padded rectangle. All is float32.

Array names end in the letters of their axes: A copies, P prompts, R rows (responses of one copy), T tokens of a
response, N tokens in a list.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

PAD_TOKEN, END_TOKEN = 0, 1
_LEAST_OPEN = 0.75
"""Below this share of unfinished rows the cache is copied without the finished ones; a copy costs about two steps."""


@dataclass(frozen=True)
class Samples:
    """Responses of all copies; those to one prompt stand together."""

    tokens_ART: Tensor
    """Padded on the right; the end token is included."""
    lengths_AR: Tensor

    def token_lists(self, copy: int) -> list[list[int]]:
        """The tokens of each response of a copy, without padding."""
        lengths = self.lengths_AR[copy].tolist()
        return [row[:length] for row, length in zip(self.tokens_ART[copy].tolist(), lengths, strict=True)]


@dataclass(frozen=True)
class _Cache:
    """Keys (rows, head, time) and values (rows, time, head) of a layer, as a product with one query reads them."""

    keys: Tensor
    values: Tensor

    @classmethod
    def empty(cls, rows: int, time: int, head: int) -> _Cache:
        return cls(torch.empty(rows, head, time), torch.empty(rows, time, head))

    def select(self, rows: Tensor, end: int) -> _Cache:
        """A cache of some rows, copied up to the time `end`."""
        smaller = self.empty(len(rows), self.values.shape[1], self.values.shape[2])
        smaller.keys[:, :, :end] = self.keys[rows, :, :end]
        smaller.values[:, :end] = self.values[rows, :end]
        return smaller


class Layer(nn.Module):
    """Attention with normalised queries and keys, then a gated feed-forward part."""

    def __init__(self, copies: int, hidden: int, heads: int, intermediate: int) -> None:
        super().__init__()
        head = hidden // heads
        self.attention_norm = nn.Parameter(torch.ones(copies, 1, hidden))
        self.query_key_value = nn.Parameter(torch.empty(copies, hidden, 3 * hidden))
        self.query_norm = nn.Parameter(torch.ones(copies, 1, 1, head))
        self.key_norm = nn.Parameter(torch.ones(copies, 1, 1, head))
        self.output = nn.Parameter(torch.empty(copies, hidden, hidden))
        self.feed_forward_norm = nn.Parameter(torch.ones(copies, 1, hidden))
        self.gate_up = nn.Parameter(torch.empty(copies, hidden, 2 * intermediate))
        self.down = nn.Parameter(torch.empty(copies, intermediate, hidden))


class Network(nn.Module):
    """Copies of a decoder."""

    cosine: Tensor
    sine: Tensor

    def __init__(self, config: dict[str, Any], copies: int) -> None:
        super().__init__()
        self.copies = copies
        self.heads = int(config["num_attention_heads"])
        self.hidden = int(config["hidden_size"])
        self.epsilon = float(config["rms_norm_eps"])
        self.embedding = nn.Parameter(torch.empty(copies, int(config["vocab_size"]), self.hidden))
        intermediate = int(config["intermediate_size"])
        layers = [Layer(copies, self.hidden, self.heads, intermediate) for _ in range(int(config["num_hidden_layers"]))]
        self.layers = nn.ModuleList(layers)
        self.final_norm = nn.Parameter(torch.ones(copies, 1, self.hidden))
        head = self.hidden // self.heads
        theta = float(config["rope_parameters"]["rope_theta"])
        frequencies = theta ** (-torch.arange(0, head, 2, dtype=torch.float32) / head)
        angles = torch.arange(int(config["max_position_embeddings"]))[:, None] * frequencies[None]
        angles = torch.cat([angles, angles], dim=1)
        self.register_buffer("cosine", angles.cos(), persistent=False)
        self.register_buffer("sine", angles.sin(), persistent=False)

    @classmethod
    def load(cls, folder: Path, copies: int) -> Network:
        """Copies with the weights of a Qwen3 checkpoint, as transformers writes it."""
        network = cls(json.loads((folder / "config.json").read_text(encoding="utf-8")), copies)
        weights = load_file(folder / "model.safetensors")
        with torch.no_grad():
            network.embedding.copy_(weights["model.embed_tokens.weight"])
            network.final_norm.copy_(weights["model.norm.weight"])
            for number, layer in enumerate(network.layers):
                prefix = f"model.layers.{number}."
                attention = [weights[f"{prefix}self_attn.{name}_proj.weight"] for name in "qkv"]
                layer.query_key_value.copy_(torch.cat(attention).T)
                layer.query_norm.copy_(weights[prefix + "self_attn.q_norm.weight"])
                layer.key_norm.copy_(weights[prefix + "self_attn.k_norm.weight"])
                layer.output.copy_(weights[prefix + "self_attn.o_proj.weight"].T)
                layer.attention_norm.copy_(weights[prefix + "input_layernorm.weight"])
                layer.feed_forward_norm.copy_(weights[prefix + "post_attention_layernorm.weight"])
                gate_up = [weights[f"{prefix}mlp.{name}_proj.weight"] for name in ("gate", "up")]
                layer.gate_up.copy_(torch.cat(gate_up).T)
                layer.down.copy_(weights[prefix + "mlp.down_proj.weight"].T)
        return network

    # -------------------------------------------------------------------------------------------------------- pieces

    def _embed(self, tokens_AN: Tensor) -> Tensor:
        shift = torch.arange(self.copies)[:, None] * self.embedding.shape[1]
        return functional.embedding(tokens_AN + shift, self.embedding.flatten(0, 1))

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return functional.rms_norm(x, (x.shape[-1],), None, self.epsilon) * weight

    def _project(self, layer: Layer, x: Tensor, positions_AN: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values (A, N, heads, head)."""
        both = torch.bmm(self._norm(x, layer.attention_norm), layer.query_key_value)
        both = both.view(*x.shape[:2], 3, self.heads, -1)
        half = both.shape[-1] // 2
        cosine, sine = self.cosine[positions_AN][:, :, None], self.sine[positions_AN][:, :, None]
        rotated = []
        for part, weight in ((both[:, :, 0], layer.query_norm), (both[:, :, 1], layer.key_norm)):
            part = self._norm(part, weight)
            turned = torch.cat([-part[..., half:], part[..., :half]], dim=-1)
            rotated.append(part * cosine + turned * sine)
        return rotated[0], rotated[1], both[:, :, 2]

    def _finish_layer(self, layer: Layer, x: Tensor, attended: Tensor) -> Tensor:
        """Add what attention returned, then the feed-forward part."""
        x = torch.baddbmm(x, attended, layer.output)
        gate, up = torch.bmm(self._norm(x, layer.feed_forward_norm), layer.gate_up).chunk(2, dim=-1)
        return torch.baddbmm(x, functional.silu(gate) * up, layer.down)

    def _logits(self, x: Tensor) -> Tensor:
        return torch.bmm(self._norm(x, self.final_norm), self.embedding.transpose(1, 2))

    # ------------------------------------------------------------------------------------------------------ sampling

    @torch.no_grad()
    def sample(self, prompts: Sequence[Sequence[int]], group: int, most: int, generator: torch.Generator) -> Samples:
        """`group` responses of every copy to each prompt, at temperature 1, until the end token or `most` tokens.

        All copies use the same random numbers, so copies with equal weights give equal responses.
        """
        copies, heads, head = self.copies, self.heads, self.hidden // self.heads
        rows = len(prompts) * group
        prompt_lengths = torch.tensor([len(prompt) for prompt in prompts])
        longest = int(prompt_lengths.max())
        caches, logits = self._read_prompts(prompts, prompt_lengths, group, most)
        # −∞ where the prompt is padding; rows and heads stand one below the other, as in the cache.
        is_padding = torch.arange(longest)[None] >= prompt_lengths.repeat_interleave(group)[:, None]
        pad_bias = torch.zeros(rows, longest + most)
        pad_bias[:, :longest].masked_fill_(is_padding, float("-inf"))
        pad_bias = pad_bias.repeat_interleave(heads, 0).repeat(copies, 1)[:, None]
        tokens = torch.full((copies, rows, most), PAD_TOKEN)
        lengths = torch.full((copies, rows), most)
        copy_index = torch.arange(copies)[:, None]
        row_of = torch.arange(rows).expand(copies, -1)  # the response that each row of the cache belongs to
        is_open = torch.ones(copies, rows, dtype=torch.bool)
        position = prompt_lengths.repeat_interleave(group).expand(copies, -1)
        for step in range(most):
            cumulative = torch.softmax(logits, -1).cumsum(-1)
            threshold = torch.rand(rows, generator=generator)[row_of] * cumulative[..., -1]
            drawn = torch.searchsorted(cumulative, threshold[..., None], right=True)[..., 0]
            drawn = drawn.clamp_(max=logits.shape[-1] - 1)
            old = tokens[copy_index, row_of, step]
            tokens[copy_index, row_of, step] = torch.where(is_open, drawn, old)
            ended = is_open & (drawn == END_TOKEN)
            lengths[copy_index, row_of] = torch.where(ended, step + 1, lengths[copy_index, row_of])
            is_open = is_open & ~ended
            most_open = int(is_open.sum(1).max())
            if not most_open or step == most - 1:
                break
            if most_open < _LEAST_OPEN * is_open.shape[1]:
                order = torch.argsort(is_open.int(), dim=1, descending=True, stable=True)[:, :most_open]
                cells = (copy_index * is_open.shape[1] + order)[..., None] * heads + torch.arange(heads)
                cells = cells.flatten()
                row_of, is_open = row_of.gather(1, order), is_open.gather(1, order)
                drawn, position = drawn.gather(1, order), position.gather(1, order)
                pad_bias = pad_bias[cells]
                caches = [cache.select(cells, longest + step) for cache in caches]
            x = self._embed(drawn)
            end = longest + step + 1
            for layer, cache in zip(self.layers, caches, strict=True):
                query, key, value = self._project(layer, x, position)
                cache.keys[:, :, end - 1] = key.reshape(-1, head)
                cache.values[:, end - 1] = value.reshape(-1, head)
                weights = torch.bmm(query.reshape(-1, 1, head) * head**-0.5, cache.keys[:, :, :end])
                weights = torch.softmax(weights.add_(pad_bias[:, :, :end]), -1)
                attended = torch.bmm(weights, cache.values[:, :end])
                x = self._finish_layer(layer, x, attended.view(x.shape))
            logits = self._logits(x)
            position = position + 1
        return Samples(tokens, lengths)

    def _read_prompts(
        self, prompts: Sequence[Sequence[int]], lengths: Tensor, group: int, most: int
    ) -> tuple[list[_Cache], Tensor]:
        """Keys and values of the prompts for every response, with room for `most` tokens; logits of the first token."""
        copies, head = self.copies, self.hidden // self.heads
        longest = int(lengths.max())
        padded = torch.full((len(prompts), longest), PAD_TOKEN)
        for row, prompt in zip(padded, prompts, strict=True):
            row[: len(prompt)] = torch.tensor(prompt)
        x = self._embed(padded.flatten().expand(copies, -1))
        positions = torch.arange(longest).repeat(len(prompts)).expand(copies, -1)
        rectangle = (copies * len(prompts), longest, self.heads, head)
        caches = []
        for layer in self.layers:
            parts = [part.reshape(rectangle).transpose(1, 2) for part in self._project(layer, x, positions)]
            attended = functional.scaled_dot_product_attention(*parts, is_causal=True)
            x = self._finish_layer(layer, x, attended.transpose(1, 2).reshape(x.shape))
            cache = _Cache.empty(copies * len(prompts) * group * self.heads, longest + most, head)
            cache.keys[:, :, :longest] = parts[1].transpose(2, 3).repeat_interleave(group, 0).flatten(0, 1)
            cache.values[:, :longest] = parts[2].repeat_interleave(group, 0).flatten(0, 1)
            caches.append(cache)
        last = torch.arange(len(prompts)) * longest + lengths - 1
        return caches, self._logits(x[:, last]).repeat_interleave(group, 1)

    # ------------------------------------------------------------------------------------------------------ training

    def log_probabilities(self, prompts: Sequence[Sequence[int]], samples: Samples) -> Tensor:
        """(A, R, T) log-probabilities of the sampled tokens with gradients; 0 behind the end of a response."""
        copies, rows = samples.lengths_AR.shape
        group = rows // len(prompts)
        head = self.hidden // self.heads
        # The last token of a prompt is read with the responses: from it the first sampled token is predicted.
        shared = max(len(prompt) for prompt in prompts) - 1
        prompt_lengths = torch.tensor([len(prompt) for prompt in prompts])
        most = int(samples.lengths_AR.max())
        padded = torch.full((len(prompts), shared), PAD_TOKEN)
        for row, prompt in zip(padded, prompts, strict=True):
            row[: len(prompt) - 1] = torch.tensor(prompt[:-1])
        last_tokens = torch.tensor([prompt[-1] for prompt in prompts]).repeat_interleave(group)
        inputs = torch.cat([last_tokens.expand(copies, -1)[..., None], samples.tokens_ART[..., : most - 1]], dim=-1)
        exists = torch.arange(most) < samples.lengths_AR[..., None]
        pack, unpack = _pack_indices(exists.flatten(1))
        packed = pack.shape[1]
        sample_positions = (prompt_lengths.repeat_interleave(group) - 1)[:, None] + torch.arange(most)
        sample_positions = sample_positions.flatten().expand(copies, -1).gather(1, pack)
        prompt_positions = torch.arange(shared).repeat(len(prompts)).expand(copies, -1)
        positions = torch.cat([prompt_positions, sample_positions], dim=1)
        prompt_tokens = padded.flatten().expand(copies, -1)
        x = self._embed(torch.cat([prompt_tokens, inputs.flatten(1).gather(1, pack)], dim=1))
        in_prompt = torch.arange(shared)[None] < (prompt_lengths - 1)[:, None]
        in_prompt = in_prompt.repeat_interleave(group, 0).repeat(copies, 1)[:, None, None].expand(-1, 1, most, -1)
        before = torch.ones(most, most, dtype=torch.bool).tril().expand(copies * rows, 1, -1, -1)
        visible = torch.cat([in_prompt, before], dim=-1)
        prompt_end = prompt_tokens.shape[1]
        unpack_rows = unpack + torch.arange(copies)[:, None] * packed
        pack_rows = pack + torch.arange(copies)[:, None] * rows * most
        for number, layer in enumerate(self.layers):
            parts = self._project(layer, x, positions)
            of_prompt = [
                part[:, :prompt_end].reshape(copies * len(prompts), shared, self.heads, head).transpose(1, 2)
                for part in parts
            ]
            of_samples = [
                part[:, prompt_end:]
                .reshape(copies * packed, self.heads, head)[unpack_rows.flatten()]
                .view(copies * rows, most, self.heads, head)
                .transpose(1, 2)
                for part in parts
            ]
            keys, values = (torch.cat([of_prompt[i].repeat_interleave(group, 0), of_samples[i]], dim=2) for i in (1, 2))
            attended = functional.scaled_dot_product_attention(of_samples[0], keys, values, attn_mask=visible)
            attended = attended.transpose(1, 2).reshape(copies * rows * most, -1)[pack_rows.flatten()]
            attended = attended.view(copies, packed, -1)
            if number == len(self.layers) - 1:  # nothing is predicted from the prompt, so its last layer is left out
                x = self._finish_layer(layer, x[:, prompt_end:], attended)
            else:
                inner = functional.scaled_dot_product_attention(*of_prompt, is_causal=True)
                inner = inner.transpose(1, 2).reshape(copies, prompt_end, -1)
                x = self._finish_layer(layer, x, torch.cat([inner, attended], dim=1))
        targets = samples.tokens_ART[..., :most].flatten(1).gather(1, pack)
        logits = self._logits(x).flatten(0, 1)
        log_probabilities = -functional.cross_entropy(logits, targets.flatten(), reduction="none")
        unpacked = log_probabilities[unpack_rows.flatten()].view(copies, rows, most)
        return unpacked * exists


def _pack_indices(exists_AN: Tensor) -> tuple[Tensor, Tensor]:
    """For each copy: the places of its tokens, repeated at the end up to the longest list, and the way back.

    A place without a token gets the number of another one; what is read there is masked.
    """
    counts = exists_AN.sum(1)
    order = torch.argsort((~exists_AN).int(), dim=1, stable=True)[:, : int(counts.max())]
    unpack = (exists_AN.cumsum(1) - 1).clamp_(min=0)
    return order, unpack
