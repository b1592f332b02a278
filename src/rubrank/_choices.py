"""Allowed values that options and rules share. Only typing is imported here, so that `import rubrank` stays fast."""

from typing import Literal, TypeAlias

Draw: TypeAlias = Literal["fixed", "bernoulli", "uniform"]
"""How `attenuate` draws the share of an attribute's influence that it removes from each group."""
Pool: TypeAlias = Literal["batch", "run", "group"]
"""The rollouts from which the influence of an attribute is estimated: this batch, all batches so far, or the group."""
Span: TypeAlias = Literal["model", "unit", "sd"]
"""model: utilities as fitted; unit, sd: scaled so that each criterion has a span, or a standard deviation, of 1."""
Wins: TypeAlias = Literal["ordinal", "graded"]
"""ordinal: all wins count the same; graded: a win counts more if the scores differ more."""
Width: TypeAlias = Literal["domain", "run"]
"""With graded wins, what a full win is a share of: the criterion's domain, or the range of its recent scores."""
Edition: TypeAlias = Literal["paper"]
"""A named set of settings; paper: those of the paper."""
Scale: TypeAlias = Literal["ranking", "utility"]
"""ranking: rewards from 0 to 1; utility: advantages."""
Outcomes: TypeAlias = Literal["hard", "soft"]
"""hard: scores are compared as they are; soft: weighted by how sure the verdicts are."""
Penalties: TypeAlias = Literal["rank", "ignore"]
"""What a rule without a gate does with low-quality criteria: rank by them, as by others, or ignore them."""
GateShape: TypeAlias = Literal["linear", "smoothstep"]
"""The shape of the gate's factor between a low-quality mean of 0 and the threshold."""
GateMissing: TypeAlias = Literal["pass", "fail"]
"""What a missing score of a gate criterion does."""
Thinking: TypeAlias = Literal["auto", "tags", "prefilled"]
"""Whether completions start inside the reasoning: "prefilled" always, "tags" never, "auto" as the prompt shows."""

# Limits of the priors of RLVR²: beyond these, rounding decides a fit rather than the data.
SMALLEST_PRIOR = 1e-9
LARGEST_PRIOR = 1e12
