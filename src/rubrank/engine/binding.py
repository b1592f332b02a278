"""A verifier with its parameters, made ready for many rollouts: `bound(verifier, params, compat, mode)(rollout)`."""

from __future__ import annotations

from rubrank.verification import Found, Verifier

__all__ = ["Found", "bound"]

bound = Verifier.bind
