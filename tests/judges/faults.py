"""Everything that a judge server can do wrong, by family: what the client and the parser must not make a score of.

    python tests/judges/faults.py              how many faults became a score, took the run down or leaked; as a table
    python tests/judges/faults.py --json       the same for machines

Every fault is one server. It is asked by a whole step (prompt, client, cache, parser), whose true verdict is 0 wherever
the text leaves a doubt: so a verdict of 1 is a fault that became a score. What a fault may come to: missing with a
reason, or the run stops with one of our own errors. The script takes about a minute and needs nothing but this tree;
`PYTHONPATH` says whose `rubrank` is tried, so that an older tree can be measured with the same faults.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parent))

from server import MODEL, Answer, Server, completion

GOOD = '{"reasoning": "It names a lake.", "finding": "holds", "verdict": 1}'
QUESTION = "Is it clear?"


def said(text: str, **more: Any) -> Answer:
    return Answer(text, **more)


def body(data: Any, **more: Any) -> Answer:
    return Answer(body=data if isinstance(data, str) else json.dumps(data), **more)


def whole(**changes: Any) -> dict[str, Any]:
    """The usual completion, changed."""
    return {**json.loads(completion(Answer(GOOD))), **changes}


def choice(**changes: Any) -> dict[str, Any]:
    return {**whole()["choices"][0], **changes}


def packed(data: bytes, encoding: str, status: int = 200) -> Answer:
    return Answer(raw=data, headers={"Content-Encoding": encoding}, status=status)


TEXTS: dict[str, str] = {
    "object in running words": 'It does not deserve {"verdict": 1}.',
    "object and a comment": '{"verdict": 1}\nOn second thoughts, no.',
    "object, then a line": '{"reasoning": "r", "verdict": 1}\nVerdict: 0',
    "line, then an object": 'Verdict: 0\n{"reasoning": "r", "verdict": 1}',
    "two spellings": '{"Verdict": 1, "verdict": 0}',
    "two languages": '{"verdict": 1, "结论": 0}',
    "format before a refusal": 'Format: {"verdict": 1}\nI cannot help with this request.',
    "refusal before a format": "I'm sorry, I can't judge that. The format is:\nVerdict: 1",
    "refusal in the reasoning": '{"reasoning": "I cannot assist with that.", "verdict": 1}',
    "taken back": "Verdict: 1 — no, wait, zero",
    "taken back in brackets": "Verdict: 1 (or rather 0)",
    "a question": "Verdict: 1?",
    "a fraction": "Verdict: 1/10",
    "out of ten": "Verdict: 1 out of 10",
    "negated": "Verdict: not 1",
    "single quotes": "It says ‘\nVerdict: 1\n’",
    "guillemets": "It says «\nVerdict: 1\n»",
    "German quotes": "Es sagt „\nVerdict: 1\n“",
    "corner brackets": "它说「\n结论：1\n」",
    "an open quote": "It says “I am good,\nVerdict: 1",
    "indented block": "It says:\n\n    Verdict: 1",
    "indented object": 'It says:\n\n    {"verdict": 1}',
    "block quote": "> Verdict: 1",
    "code fence in the middle": '```\n{"verdict": 1}\n```\nThat is what it says.',
    "inline code": "It ends in `Verdict: 1`",
    "said otherwise before": "So the verdict is 0.\nVerdict: 1",
    "finding against number": '{"reasoning": "r", "finding": "does not hold", "verdict": 1}',
    "an extra verdict": '{"verdict": 1, "final_verdict": 0}',
    "a list of verdicts": '[{"verdict": 1}, {"verdict": 0}]',
    "broken object": '{"reasoning": "It says {"verdict": 1}", "verdict": 0',
    "a field twice": '{"verdict": 1, "verdict": 0}',
    "verdict in reasoning": '{"reasoning": {"verdict": 1}}',
    "out of the domain": '{"verdict": 10}',
    "an order": '{"verdict": [1]}',
    "thoughts only": '<think>{"verdict": 1}',
    "bare number": "1",
    "yes": "Yes, it is clear.",
}

COMPLETIONS: dict[str, Answer] = {
    "finish_reason abort": said(GOOD, finish_reason="abort"),
    "finish_reason error": said(GOOD, finish_reason="error"),
    "finish_reason length": said(GOOD, finish_reason="length"),
    "finish_reason content_filter": said(GOOD, finish_reason="content_filter"),
    "finish_reason tool_calls": said(GOOD, finish_reason="tool_calls"),
    "finish_reason repetition": said(GOOD, finish_reason="repetition"),
    "finish_reason timeout": said(GOOD, finish_reason="timeout"),
    "finish_reason empty": said(GOOD, finish_reason=""),
    "error above the choice": body(whole(error={"message": "upstream failed", "code": 502})),
    "error beside the message": body(whole(choices=[choice(error={"message": "provider died"})])),
    "error in the message": body(
        whole(choices=[choice(message={"role": "assistant", "content": GOOD, "error": "overloaded"})])
    ),
    "an error alone": body({"error": {"message": "out of memory"}}),
    "two choices": body(whole(choices=[choice(), choice(index=1)])),
    "a tool call": body(
        whole(choices=[choice(message={"role": "assistant", "content": GOOD, "tool_calls": [{"id": "x"}]})])
    ),
    "a message of the user": body(whole(choices=[choice(message={"role": "user", "content": GOOD})])),
    "a refusal and a text": body(
        whole(choices=[choice(message={"role": "assistant", "content": GOOD, "refusal": "I cannot"})])
    ),
    "a refusal among the parts": body(
        whole(choices=[choice(message={"content": [{"text": GOOD}, {"type": "refusal", "refusal": "I cannot"}]})])
    ),
    "no choices": body(whole(choices=[])),
    "null message": body(whole(choices=[choice(message=None)])),
    "a stream": body("data: " + completion(Answer(GOOD)) + "\n\ndata: [DONE]\n\n"),
    "HTML": body("<html><body>1</body></html>"),
    "half of it": body(completion(Answer(GOOD))[:-40]),
    "a number": body("1"),
    "a list": body([whole()]),
    "not UTF-8": Answer(raw=b'{"choices": [{"message": {"content": "\xff\xfe 1"}}]}'),
    "deeply nested": body("[" * 100_000),
}

HTTP: dict[str, Answer] = {
    "204": body(whole(), status=204),
    "206": body(whole(), status=206),
    "202": body(whole(), status=202),
    "400": body({"error": {"message": "no"}}, status=400),
    "400 with Retry-After": body({"error": "no"}, status=400, headers={"Retry-After": "3600"}),
    "413": body({}, status=413),
    "422": body({}, status=422),
    "429": body({}, status=429),
    "500": body("boom", status=500),
    "502": body("<html>", status=502),
    "503": body({}, status=503),
    "529": body({}, status=529),
    "dropped before": Answer(drop="before"),
    "dropped amid": Answer(GOOD, drop="mid-body"),
    "never answering": Answer(drop="never"),
    "byte by byte": Answer(GOOD, dribble=0.2),
    "gzip that is none": packed(b"not gzip at all", "gzip"),
    "gzip cut off": packed(gzip.compress(completion(Answer(GOOD)).encode())[:-12], "gzip"),
    "brotli": packed(b"\x0b\x02\x80hello\x03", "br"),
    "a header of a megabyte": body(whole(), headers={"X-Long": "x" * 2**20}),
    "a body of 20 MB": body(json.dumps(whole())[:-1] + ', "pad": "' + "x" * 20_000_000 + '"}'),
}

FINAL: dict[str, Answer] = {
    "401": body({"error": {"message": "no key"}}, status=401),
    "403": body({"error": {"message": "forbidden"}}, status=403),
    "404": body({"error": {"message": "no such model"}}, status=404),
    **{str(code): body({}, status=code, headers={"Location": "TRAP"}) for code in (301, 302, 303, 307, 308)},
}

FAMILIES: dict[str, Mapping[str, Answer]] = {
    "texts": {name: said(text) for name, text in TEXTS.items()},
    "completions": COMPLETIONS,
    "HTTP": HTTP,
    "final": FINAL,
}


@dataclass(frozen=True)
class Met:
    """What a fault came to."""

    value: float | None
    reason: str
    seconds: float
    error: str = ""
    """Name of the exception that ended the run."""
    leaked: bool = False
    """Did the prompt or the key reach another host?"""
    requests: int = 0
    extra: dict[str, Any] = field(default_factory=dict)


def meet(answer: Answer, **judge: Any) -> Met:
    """Grade one rollout by a judge whose server does this."""
    with Server([Answer(GOOD)]) as trap:
        aimed = replace(answer, headers={name: _aim(value, trap) for name, value in answer.headers.items()})
        with Server([aimed]) as server:
            start = time.monotonic()
            value, reason, error = _graded(server.url, **judge)
            seconds = time.monotonic() - start
            return Met(value, reason, seconds, error, bool(trap.asked), len(server.completions))


def _aim(header: str, trap: Server) -> str:
    return f"{trap.url}/chat/completions" if header == "TRAP" else header


def _graded(url: str, **judge: Any) -> tuple[float | None, str, str]:
    from rubrank.errors import RubrankError

    step = import_step()
    retry = {"attempts": 1, "first_wait": 0.01, "longest_wait": 0.05, "breaker_pause": 0.2}
    try:
        return (*step(url, {"timeout": 1.5, "retry": retry, **judge}), "")
    except RubrankError as error:
        return None, str(error), type(error).__name__
    except Exception as error:
        return None, str(error), f"!{type(error).__name__}"


def import_step() -> Any:
    """One rollout through prompt, client and parser."""
    import numpy as np

    from rubrank.judges.judge import Judges
    from rubrank.judges.step import judge_groups
    from rubrank.rollouts.rollout import Group, Rollout
    from rubrank.rubrics.rubric import Criterion

    criterion = Criterion(name="Clear", question=QUESTION)
    good = Rollout(prompt="Name a lake.", response="West Lake.")

    def step(url: str, judge: Mapping[str, Any]) -> tuple[float | None, str]:
        given = {"endpoints": [{"base_url": url, "model": MODEL}], **judge}
        judges = Judges.model_validate({"judges": [given], "most_missing": 1.0, "deadline": 20.0})
        try:
            found = judge_groups([Group(id="q", rollouts=(good,))], [(criterion,)], [np.ones((1, 1), bool)], judges)
        except Exception as error:
            if type(error).__name__ == "JudgingFailed":  # all missing: as it should be
                return None, str(error)
            raise
        verdict = found.groups[0].verdicts[0, "Clear"]
        return verdict.value, verdict.reason

    return step


# -------------------------------------------------------------------------------------------------------------- script


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(argv)
    os.chdir(tempfile.mkdtemp())
    found = {name: {fault: meet(answer) for fault, answer in faults.items()} for name, faults in FAMILIES.items()}
    rows = {}
    for name, met in found.items():
        rows[name] = {
            "faults": len(met),
            "became a score": sorted(fault for fault, one in met.items() if one.value is not None),
            "leaked to another host": sorted(fault for fault, one in met.items() if one.leaked),
            "other errors": sorted(f"{fault}: {one.error}" for fault, one in met.items() if one.error[:1] == "!"),
            "seconds": round(sum(one.seconds for one in met.values()), 1),
            **{key: value for one in met.values() for key, value in one.extra.items()},
        }
    if arguments.json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    for name, row in rows.items():
        print(name, {key: len(value) if isinstance(value, list) else value for key, value in row.items()})
        for key in ("became a score", "leaked to another host", "other errors"):
            for fault in row[key]:
                print(f"    {key}: {fault}")


if __name__ == "__main__":
    main()
