"""Float32 on a CPU, whatever precision the config names.

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
_CPU_VARIABLE = "ACCELERATE_USE_CPU"
"""How `accelerate launch --cpu` asks for the CPU."""


def model_dtype(job: Job) -> str:
    """The type in which the weights are loaded: the one in the config, or float32 on a CPU."""
    if computes_on_cpu(job):
        return "float32"
    return job.config.model.dtype


def turn_off_half_precision(job: Job, trl_arguments: dict[str, Any]) -> None:
    """On a CPU, set every half-precision flag to false, in place.

    Flags that are left out or null are set too: TRL reads `bf16: null` as true.
    """
    if computes_on_cpu(job):
        trl_arguments.update(dict.fromkeys(HALF_PRECISION_FLAGS, False))


def overrule_launcher(job: Job) -> None:
    """Before a run on a CPU: ignore the mixed precision that `accelerate launch` asks for."""
    if _LAUNCHER_VARIABLE in os.environ and computes_on_cpu(job):
        os.environ[_LAUNCHER_VARIABLE] = "no"


def describe_precision_change(job: Job) -> str:
    """One line that names the settings replaced by float32; empty if nothing is replaced.

    Call it before `overrule_launcher`, which removes what the launcher asked for.
    """
    if not computes_on_cpu(job):
        return ""
    # A flag that is null counts as well: TRL reads it as true.
    replaced = [f"trl.{name}" for name in HALF_PRECISION_FLAGS if job.config.trl.get(name, False) is not False]
    if job.config.model.dtype != "float32":
        replaced.insert(0, f"model.dtype {job.config.model.dtype}")
    if os.environ.get(_LAUNCHER_VARIABLE, "no") != "no":
        replaced.append("accelerate's mixed_precision")
    if not replaced:
        return ""
    reason = "the run is on the CPU" if has_accelerator() else "no GPU"
    return f"float32 instead of {', '.join(replaced)}: {reason}, and half precision crashes some CPUs"


def computes_on_cpu(job: Job) -> bool:
    """Whether the run is on the CPU: nothing else is available, or the config or the launcher chose it."""
    launched_on_cpu = os.environ.get(_CPU_VARIABLE, "").lower() in ("1", "true", "yes", "y", "on", "t")
    return bool(job.config.trl.get("use_cpu")) or launched_on_cpu or not has_accelerator()


def has_accelerator() -> bool:
    """Whether PyTorch can compute on a GPU or another accelerator."""
    import torch

    return bool(torch.accelerator.is_available())
