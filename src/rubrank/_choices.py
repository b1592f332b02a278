"""Allowed values that options and rules share. Only typing is imported here, so that `import rubrank` stays fast."""

from typing import Literal, TypeAlias

Draw: TypeAlias = Literal["fixed", "bernoulli", "uniform"]
"""How `attenuate` draws the share of an attribute's influence that it removes."""
Pool: TypeAlias = Literal["batch", "run", "group"]
"""The rollouts from which the influence of an attribute is estimated."""
Span: TypeAlias = Literal["model", "unit", "sd"]
"""Utilities as the model fits them, or scaled so that each criterion has the same span, or standard deviation."""
Wins: TypeAlias = Literal["ordinal", "graded"]
"""All wins count the same, or a win counts more if the scores differ more."""
Width: TypeAlias = Literal["domain", "run"]
"""The difference of scores that counts as a full win: a share of the criterion's domain, or of its recent scores."""
Edition: TypeAlias = Literal["paper"]
"""A named set of settings."""
Scale: TypeAlias = Literal["ranking", "utility"]
"""Rewards from 0 to 1, or advantages."""
Outcomes: TypeAlias = Literal["hard", "soft"]
"""Comparisons by scores alone, or weighted by how sure the verdicts are."""
Penalties: TypeAlias = Literal["rank", "ignore"]
"""What a rule without a gate does with low-quality criteria."""
GateShape: TypeAlias = Literal["linear", "smoothstep"]
"""The factor of the soft gate between 0 and its threshold."""
GateMissing: TypeAlias = Literal["pass", "fail"]
"""What a missing score does at the gate."""
Thinking: TypeAlias = Literal["auto", "tags", "prefilled"]
"""Whether completions start inside the reasoning: "prefilled" always, "tags" never, "auto" as the prompt shows."""

# Limits of the priors of RLVR²: beyond these, rounding decides a fit rather than the data.
SMALLEST_PRIOR = 1e-9
LARGEST_PRIOR = 1e12
