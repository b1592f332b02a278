"""One page to look at records: served while a run is written (`rubrank view`), or as one file (`rubrank report`).

Both show the same page, `assets/index.html`. It asks a data source for what it shows:

    rubrank view      the page fetches JSON from a local server       server.py, run.py
    rubrank report    the same JSON is packed into the HTML file      report.py

    sources.py              turns scores and rollouts into records first
    group_data.py           one group: noteworthy states, scores, utilities, outcomes, explanations, texts
    index.py                one row per group: what lists, filters and curves need
    changes.py              one group under another rule, or with other weights, gates or λ
    labels.py               verdicts that a person accepted or corrected on the page
    summary.py              figures over all groups: counts, gates, rules
    criteria_summary.py     … of criteria and their conflicts
    attribute_summary.py    … of attributes such as length
    figures.py              what all three need: a group as arrays, means, distributions

Drafted rubrics have a separate page (`rubrank.drafting.page`) on the same server.
"""

from __future__ import annotations

DEFAULT_PORT = 8642
"""The port of `rubrank view`, or the first free one after it."""
TEXT_LIMIT = 4000
"""Characters that a report keeps of each response, reasoning and message."""
BUDGET_MB = 50.0
"""Megabytes that the groups of a report may take."""
