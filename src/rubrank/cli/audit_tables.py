"""What `rubrank judge audit` prints."""

from __future__ import annotations

from rubrank.cli.printing import print_line, table
from rubrank.errors import counted
from rubrank.studies.audit.result import Audit
from rubrank.studies.audit.tables import not_measured, sections


def show_audit(audit: Audit, details: bool = False) -> None:
    """Everything that was measured, and what was not."""
    print_line(f"{', '.join(audit.judges)}: {counted(audit.rollouts, 'rollout')} in {counted(audit.groups, 'group')}\n")
    for title, headings, rows, words in sections(audit, details):
        if rows:
            table(title, headings, rows, words=words, most=None)
    if audit.unmeasured:
        print_line("not measured")
        for line in not_measured(audit):
            print_line(f"  {line}")
