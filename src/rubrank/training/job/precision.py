"""Float32 wherever no accelerator is available, whatever precision the config names.

Half precision on a CPU is slow, and on some machines fatal: PyTorch picks AMX instructions that the processor announces
and the hypervisor does not grant, and the process dies with SIGILL in its first matrix product. A config written for a
GPU therefore runs in float32 on a CPU, and the plan says so in one line.
"""

from __future__ import annotations

import os
from typing import Any

from rubrank.training.job.config import Job

HALF_PRECISION_FLAGS = ("bf16", "fp16", "bf16_full_eval", "fp16_full_eval")
"""Arguments of TRL's GRPOConfig that turn half precision on."""
_LAUNCHER_VARIABLE = "ACCELERATE_MIXED_PRECISION"
"""Where `accelerate launch` leaves the `mixed_precision` of its own config file."""


def model_dtype(job: Job) -> str:
    """The type in which the weights are loaded: the one in the config, or float32 without an accelerator."""
    if has_accelerator():
        return job.config.model.dtype
    return "float32"


def turn_off_half_precision(trl_arguments: dict[str, Any]) -> None:
    """Set every half-precision flag to false, in place; does nothing with an accelerator."""
    if has_accelerator():
        return
    for name in HALF_PRECISION_FLAGS:
        if trl_arguments.get(name):
            trl_arguments[name] = False


def overrule_launcher() -> None:
    """Before a run: ignore the mixed precision that `accelerate launch` asks for, unless there is an accelerator."""
    if _LAUNCHER_VARIABLE in os.environ and not has_accelerator():
        os.environ[_LAUNCHER_VARIABLE] = "no"


def describe_precision_change(job: Job) -> str:
    """One line that names the settings replaced by float32; empty if nothing is replaced."""
    if has_accelerator():
        return ""
    replaced = [f"trl.{name}" for name in HALF_PRECISION_FLAGS if job.config.trl.get(name)]
    if job.config.model.dtype != "float32":
        replaced.insert(0, f"model.dtype {job.config.model.dtype}")
    if os.environ.get(_LAUNCHER_VARIABLE, "no") in ("bf16", "fp16"):
        replaced.append("accelerate's mixed_precision")
    if not replaced:
        return ""
    return f"float32 instead of {', '.join(replaced)}: no GPU, and half precision crashes some CPUs"


def has_accelerator() -> bool:
    """Whether PyTorch can compute on a GPU or another accelerator."""
    import torch

    return bool(torch.accelerator.is_available())
