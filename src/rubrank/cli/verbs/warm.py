"""The verb `rubrank warm-up`."""

from __future__ import annotations

from rubrank.cli.common import AsJson
from rubrank.cli.printing import print_json, table


def warm_up(as_json: AsJson = False) -> None:
    """Compile the numeric kernels now, and keep them: for images, and before many processes start."""
    from rubrank.cli.warming import warm_up as run
    from rubrank.grading.progress import Bar

    with Bar("compiling", as_json) as bar:
        seconds = run(bar)
    if as_json:
        print_json(seconds)
        return
    rows = [(name, f"{taken:.2f}") for name, taken in seconds.items()]
    table("compiled and kept", ("what", "seconds"), [*rows, ("all", f"{sum(seconds.values()):.2f}")], total=1)
