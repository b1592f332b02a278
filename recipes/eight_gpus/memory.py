"""What a GPU holds while a model is trained and sampled from: python memory.py [--tokens 8192] [--rollouts-at-once 1]

    parameters(QWEN3_8B)                         8190735360
    training(QWEN3_8B, gpus=8, …)["optimizer"]   8.2 GB: two moments in float32, an eighth of them

Sums, not measurements: weights, gradients and optimizer states are exact to the byte, activations and logits are what
their shapes say, and allocators want some room besides. The counts are tested against a real (tiny) model.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

GB = 1e9


@dataclass(frozen=True)
class Shape:
    """Of a Qwen3, or of what is built alike."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tied: bool = False


QWEN3_8B = Shape(36, 4096, 12288, 32, 8, 128, 151936)


def layer_parameters(shape: Shape) -> int:
    """Attention, MLP and norms of one layer."""
    attention = shape.hidden * shape.head_dim * (2 * shape.heads + 2 * shape.kv_heads) + 2 * shape.head_dim
    return attention + 3 * shape.hidden * shape.intermediate + 2 * shape.hidden


def parameters(shape: Shape) -> int:
    """Of the whole model."""
    tables = shape.vocabulary * shape.hidden * (1 if shape.tied else 2)
    return tables + shape.layers * layer_parameters(shape) + shape.hidden


def cache_bytes(shape: Shape) -> int:
    """Keys and values of one token, in bfloat16."""
    return 2 * shape.layers * shape.kv_heads * shape.head_dim * 2


def training(shape: Shape, gpus: int, tokens: int, rollouts: int) -> dict[str, float]:
    """GB on each GPU in the backward pass: everything divided (FSDP2, ZeRO-3), float32 with bfloat16 for the work.

    tokens: of prompt and completion. rollouts: that a GPU takes at a time.
    """
    share, rows = parameters(shape) / gpus, rollouts * tokens
    widest = max(layer_parameters(shape), shape.vocabulary * shape.hidden)
    inner = 2 * (4 * shape.hidden + 3 * shape.intermediate + 2 * shape.head_dim * (shape.heads + shape.kv_heads))
    return {
        "weights": 4 * share / GB,
        "gradients": 4 * share / GB,
        "optimizer": 8 * share / GB,
        "gathered": 2 * 2 * widest / GB,  # the piece at work and the next one, in bfloat16
        "activations": (2 * shape.layers * shape.hidden + inner) * rows / GB,  # kept at layers; one is computed anew
        "logits": (2 + 4 + 4) * shape.vocabulary * rows / GB,  # bfloat16, their logarithms, their gradient
    }


def sampling(shape: Shape, gpus: int, gpu: float, share: float, parallel: int) -> dict[str, float]:
    """GB on each GPU while vLLM samples beside the divided training state; `parallel` GPUs hold one model."""
    weights = 2 * parameters(shape) / parallel / GB
    return {
        "training state": 16 * parameters(shape) / gpus / GB,
        "vLLM weights": weights,
        "cache": gpu * share - weights,
    }


def rollouts_in(cache: float, shape: Shape, tokens: int, parallel: int) -> int:
    """Rollouts of full length that fit into the cache of one GPU's vLLM."""
    return int(cache * GB * parallel // (cache_bytes(shape) * tokens))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--gigabytes", type=float, default=80.0, help="of a GPU (default 80)")
    parser.add_argument("--tokens", type=int, default=9216, help="of prompt and completion (default 1024 + 8192)")
    parser.add_argument("--rollouts-at-once", type=int, default=1, help="per_device_train_batch_size (default 1)")
    parser.add_argument("--vllm-share", type=float, default=0.45, help="vllm_gpu_memory_utilization (default 0.45)")
    parser.add_argument("--parallel", type=int, default=1, help="vllm_tensor_parallel_size (default 1)")
    given = parser.parse_args()
    parts = training(QWEN3_8B, given.gpus, given.tokens, given.rollouts_at_once)
    for name, size in (*parts.items(), ("training, together", sum(parts.values()))):
        print(f"{name:20} {size:6.1f} GB")
    asleep = sampling(QWEN3_8B, given.gpus, given.gigabytes, given.vllm_share, given.parallel)
    for name, size in (*asleep.items(), ("sampling, together", sum(asleep.values()))):
        print(f"{name:20} {size:6.1f} GB")
    fit = rollouts_in(asleep["cache"], QWEN3_8B, given.tokens, given.parallel)
    print(f"{'rollouts in cache':20} {fit:6d} of full length")


if __name__ == "__main__":
    main()
