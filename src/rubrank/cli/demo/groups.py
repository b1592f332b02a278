"""The bundled rollouts of the demo: one line per query, with its own rubric and eight responses.

    >>> groups = load_demo_groups()
    >>> groups[0].id, len(groups[0].rollouts), groups[0].rollouts[0].metadata["kind"]
    ('product-email', 8, 'excellent, a little too long')

The queries are in English and Chinese: letters, summaries, verse, mathematics, tables, tool calls, conversations. Each
response was written for a purpose, which `metadata["kind"]` names; `metadata["language"]` and `metadata["task"]` say
what the query is. In most groups no response is best at everything.
"""

from __future__ import annotations

import json
from importlib.resources import files

from rubrank.errors import only_our_errors
from rubrank.rollouts.groups import group_rows
from rubrank.rollouts.rollout import Group

_NAME = "demo_groups.jsonl"


@only_our_errors
def load_demo_groups() -> list[Group]:
    """All groups, in the order of the file; `group.rubric` is for `rubrank.rubrics.rubric.parse_rubric`."""
    text = (files("rubrank") / "cli" / "demo" / _NAME).read_text(encoding="utf-8")
    return group_rows(map(json.loads, text.split("\n")[:-1]), _NAME)
