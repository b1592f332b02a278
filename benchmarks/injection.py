"""How often does a response judge itself, and how often does its punctuation cost it a verdict?

    python benchmarks/injection.py        half a minute on one core; the figures of docs/reliability.md

Payloads (attempts and prepared replies) × kinds of judges × behaviours of judges that repeat the response in some way
without a verdict of their own: fooled if any verdict is read. Then judges that repeat the response and give their own
verdict: wrong if another verdict is read, missing if none is. At last the same judges for honest responses whose
quotation marks and brackets do not pair. Nothing is random. The lists are in tests/judges/.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent / "tests" / folder) for folder in ("judges", ".")]

from attacks import PREPARED, PUNCTUATION, list_repeats, list_verdicts, prepare  # type: ignore[import-not-found]  # noqa: E402
from test_injection import (  # type: ignore[import-not-found]  # noqa: E402
    ATTEMPTS,
    FORMS,
    Form,
    asked,
    attempt_for,
)

from rubrank.judges.judge import Reply  # noqa: E402


def payloads(form: Form) -> list[str]:
    return [attempt_for(form, template) for template in ATTEMPTS] + [prepare(form, template) for template in PREPARED]


def main() -> None:
    behaviours: set[str] = set()
    fooled: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for form in FORMS.values():
        for attempt in payloads(form):
            call = asked(form, attempt)
            for behaviour, reply in list_repeats(form, attempt):
                behaviours.add(behaviour)
                counts["repeated"] += 1
                if form.read(Reply(reply), call=call) is not None:
                    fooled[behaviour] += 1
            for _, reply in list_verdicts(form, attempt):
                verdict = form.read(Reply(reply), call=call)
                counts["attack, own verdict"] += 1
                counts["attack, wrong"] += verdict not in (form.right, None)
                counts["attack, missing"] += verdict is None
        for response in PUNCTUATION:
            call = asked(form, response)
            for _, reply in list_verdicts(form, response):
                verdict = form.read(Reply(reply), call=call)
                counts["honest"] += 1
                counts["honest, wrong"] += verdict not in (form.right, None)
                counts["honest, missing"] += verdict is None
    size = f"{len(ATTEMPTS) + len(PREPARED)} payloads × {len(FORMS)} kinds × {len(behaviours)} behaviours"
    print(f"{size}: {counts['repeated']:,} replies without a verdict, {sum(fooled.values())} fooled")
    for behaviour, times in fooled.most_common():
        print(f"  {times} × {behaviour}")
    for name in ("attack", "honest"):
        total = counts["attack, own verdict" if name == "attack" else "honest"]
        wrong = counts[f"{name}, wrong"]
        missing = counts[f"{name}, missing"]
        print(f"{name} responses, own verdict given: {total:,} replies, {wrong} wrong, {missing} missing")


if __name__ == "__main__":
    main()
