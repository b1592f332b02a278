"""What a service will do, in words and for machines, before it does anything."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from rubrank._files import check_folder
from rubrank._plain import labelled
from rubrank.errors import InvalidInput
from rubrank.service.config import ServiceConfig
from rubrank.training.engine import RewardEngine

_line = partial(labelled, width=11)
_EXTRA = "Install them: pip install 'rubrank[serve]'."


def require_packages(ray: bool = False) -> None:
    """Raise where the packages of the extra are not installed."""
    from importlib.util import find_spec

    names = ("starlette", "uvicorn", "httptools", *(("ray.serve",) if ray else ()))
    for name in names:
        top = name.partition(".")[0]
        if find_spec(top) is None:
            remedy = "Install it: pip install 'ray[serve]'." if top == "ray" else _EXTRA
            raise InvalidInput("serve", "packages", "installed", f"no {top}", remedy)


def plan(config: ServiceConfig, folder: Path) -> dict[str, Any]:
    """Everything that is decided, checked: rubric, judges, token, files."""
    engine = config.serving_engine(folder)
    secret, tls = config.secret(folder), config.files_of_tls(folder)
    check_folder(config.state_folder(folder) / "service.sqlite", owner="serve", what="folder")
    if engine.records is not None:
        check_folder(engine.records, owner="serve", what="records")
    return {
        "address": f"{'http' if tls is None else 'https'}://{config.host}:{config.port}",
        "token": secret is not None,
        "rule": engine.rule.name,
        "criteria": [] if engine.rubric is None else [c.name for c in engine.rubric.criteria],
        "judges": _judges(engine),
        "records": None if engine.records is None else str(engine.records),
        "folder": str(config.state_folder(folder)),
        "group_size": config.group_size,
        "deadline": config.deadline,
        "keep": config.keep,
        "max_body": config.max_body,
        "max_waiting": config.max_waiting,
        "shutdown": config.shutdown,
    }


def _judges(engine: RewardEngine) -> list[dict[str, Any]]:
    if engine.judges is None:
        return []
    return [
        {
            "name": judge.name,
            "kind": judge.kind,
            "models": sorted({e.model for leaf in (judge.members or (judge,)) for e in leaf.endpoints}),
            "cache": engine.judges.cache,
        }
        for judge in engine.judges.judges
    ]


def describe(found: dict[str, Any]) -> str:
    """Lines for a reader."""
    token = "callers need a token" if found["token"] else "no token: only this machine can reach it"
    criteria, judges = found["criteria"], found["judges"]
    asked = f"{len(criteria)} criteria for all, and those of each query" if criteria else "the criteria of each query"
    size = found["group_size"]
    siblings = (
        "refused, unless they say group_size" if size is None else f"{size} to a group, within {found['deadline']:g} s"
    )
    lines = [
        _line("address", f"{found['address']}; {token}"),
        _line("reward", f"{found['rule']}; {asked}"),
        *(
            _line("judge", f"{j['name']}: {j['kind']}, {', '.join(j['models'])}; replies in {j['cache']}")
            for j in judges
        ),
        _line("samples", f"one at a time: {siblings}; answers are kept for {found['keep']:g} s"),
        _line("limits", f"{found['max_body']:,} bytes per request, {found['max_waiting']:,} pending rollouts"),
        _line("records", found["records"] or "none"),
        _line("folder", found["folder"]),
    ]
    return "\n".join(lines)
