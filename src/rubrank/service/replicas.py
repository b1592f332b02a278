"""The same app on Ray Serve, with several replicas: what must be in one place is in two actors.

    serve_on_ray(config, folder, replicas=2)

    rubrank-siblings     samples meet here, whichever replica they came to; answers and requests are on its disk
    rubrank-limits       who may use how much of the endpoints of judges (judges/client/limits.py)

Replicas grade, judge and fuse. One that dies is missed after a few seconds: its places at the judges are free again,
its callers' samples stay in their groups, and a group that it was scoring is given to another replica. Callers that it
leaves without an answer try again, as trainers do, and are recognised. Replicas of one machine share the file of
replies of their judges; each writes records of its own.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.grading.cluster import start_ray
from rubrank.judges.client.limits import LEASE, LimitsActor
from rubrank.judges.client.runtime import share_limits_through
from rubrank.service.app import Opened, make_app
from rubrank.service.cohorts import Cohorts
from rubrank.service.config import ServiceConfig
from rubrank.service.samples import GroupWork, SampleAnswer, ServiceSample, Ticket
from rubrank.service.service import Service, leaving, replica_name
from rubrank.service.store import Store
from rubrank.training.engine import Graded

_OWNER = "serve"
SIBLINGS, LIMITS = "rubrank-siblings", "rubrank-limits"
NAMESPACE = "rubrank"
_DEAD = 5.0  # seconds after which a replica that is not heard of has died
_CALLS = 100_000  # that may wait in the actor at the same time
_PATIENCE = {"RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60", "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "60"}
"""Of Serve with its own proxy: five seconds are too few on a machine that has other things to do."""
_MEMORY = 128 << 20  # bytes of Ray's object store: nothing large goes through it


class SiblingsActor:
    """Cohorts behind Ray: every answer is (True, result) or (False, error), so that errors arrive as they are."""

    def __init__(self, folder: str, deadline: float, keep: float) -> None:
        self._store = Store(Path(folder) / "service.sqlite")
        self._options = {"deadline": deadline, "keep": keep}
        self._cohorts: Cohorts | None = None
        self._seen: dict[str, float] = {}
        self._watch: asyncio.Task[None] | None = None

    async def call(self, owner: str, name: str, *args: Any) -> tuple[bool, Any]:
        """One method of `Cohorts`, for one replica."""
        cohorts = self._here()
        self._seen[owner] = time.monotonic()
        try:
            if name == "enter":
                return True, await cohorts.enter(args[0], owner)
            found = getattr(cohorts, name)(*args)
            return True, await found if asyncio.iscoroutine(found) else found
        except asyncio.CancelledError:  # its replica was taken for dead, and is not
            return False, leaving()
        except Exception as error:
            return False, error

    async def ping(self, owner: str) -> dict[str, int]:
        """The replica is there; what is counted here."""
        self._seen[owner] = time.monotonic()
        return dict(self._here().counts)

    async def request(self, id: str) -> bytes | None:
        """What a request was answered."""
        return self._store.request(id)

    async def keep_request(self, id: str, answer: bytes) -> None:
        """Remember it."""
        self._here().prune()
        await self._store.keep_request(id, answer)

    def _here(self) -> Cohorts:
        if self._cohorts is None:  # belongs to the event loop of the actor
            self._cohorts = Cohorts(self._store, **self._options)
            self._watch = asyncio.get_running_loop().create_task(self._watching(self._cohorts))
        return self._cohorts

    async def _watching(self, cohorts: Cohorts) -> None:
        while True:
            await asyncio.sleep(LEASE / 10)
            now = time.monotonic()
            for owner in [owner for owner, seen in self._seen.items() if now - seen > _DEAD]:
                del self._seen[owner]
                cohorts.abandon_all(owner)


class There:
    """Siblings that meet in the actor."""

    def __init__(self, actor: Any, owner: str) -> None:
        self._actor, self._name = actor, owner
        self.counts: dict[str, int] = {}

    async def _call(self, name: str, *args: Any) -> Any:
        from ray.exceptions import RayActorError

        try:
            worked, found = await self._actor.call.remote(self._name, name, *args)
        except RayActorError:  # it is started again, with what is on its disk
            raise leaving() from None
        if not worked:
            raise found
        return found

    async def enter(self, sample: ServiceSample) -> Ticket | SampleAnswer:
        """A place, or the answer."""
        found: Ticket | SampleAnswer = await self._call("enter", sample)
        return found

    async def settle(self, ticket: Ticket, graded: Graded | None) -> GroupWork | SampleAnswer:
        """Wait for the siblings."""
        found: GroupWork | SampleAnswer = await self._call("settle", ticket, graded)
        return found

    async def publish(self, ticket: int, answers: Sequence[SampleAnswer]) -> None:
        """Answer all."""
        await self._call("publish", ticket, list(answers))

    async def fail(self, ticket: int, error: Exception) -> None:
        """Scoring did not work."""
        await self._call("fail", ticket, error)

    async def abandon(self, ticket: Ticket) -> None:
        """The caller is gone."""
        await self._call("abandon", ticket)

    async def request(self, id: str) -> bytes | None:
        """What a request was answered."""
        found: bytes | None = await self._actor.request.remote(id)
        return found

    async def keep_request(self, id: str, answer: bytes) -> None:
        """Remember it."""
        await self._actor.keep_request.remote(id, answer)

    async def stay(self) -> None:
        """Tell the actor again and again that this replica is there."""
        while True:
            with suppress(Exception):
                self.counts = await self._actor.ping.remote(self._name)
            await asyncio.sleep(LEASE / 10)


def opened_on_ray(config: ServiceConfig, folder: Path) -> Opened:
    """The service of one replica, as the app opens it."""
    secret = config.secret(folder)

    @asynccontextmanager
    async def found() -> AsyncIterator[tuple[Service, str | None]]:
        import ray

        name = replica_name()
        siblings, limits = (ray.get_actor(actor, NAMESPACE) for actor in (SIBLINGS, LIMITS))

        there = There(siblings, name)
        service = await Service.opened(config, folder, there, apart=name)
        if service.engine.judges is not None:
            share_limits_through(limits, name)
        staying = asyncio.get_running_loop().create_task(there.stay())
        try:
            yield service, secret
        finally:
            await service.close()
            staying.cancel()

    return found


def check(config: ServiceConfig, folder: Path) -> None:
    """Raise for what several replicas cannot do."""
    if config.certificate is not None:
        raise InvalidInput(
            _OWNER, "certificate", "left out with replicas on Ray", "given", "Put a proxy with TLS before it."
        )
    if config.serving_engine(folder).remembers:
        allowed = "one that remembers nothing with replicas on Ray: each replica would remember by itself"
        raise InvalidInput(_OWNER, "rule", allowed, config.rule, "Serve it with one process.")


def serve_on_ray(
    config: ServiceConfig,
    folder: Path,
    *,
    replicas: int = 2,
    address: str | None = None,
    stated: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until a signal ends it. address: of a Ray cluster; None: one on this machine, made for it."""
    for name, value in _PATIENCE.items():
        os.environ.setdefault(name, value)
    import ray
    from ray import serve

    check(config, folder)
    folder = folder.resolve()
    start_ray(ray, address, _OWNER, namespace=NAMESPACE, object_store_memory=_MEMORY, num_cpus=2 * replicas + 2)
    try:
        _start_actors(ray, config, folder)
        serve.start(http_options={"host": config.host, "port": config.port or 8300})
        app = make_app(opened_on_ray(config, folder))
        made = serve.deployment(
            num_replicas=replicas,
            max_ongoing_requests=_CALLS,
            graceful_shutdown_timeout_s=config.shutdown + 5.0,
            ray_actor_options={"num_cpus": 1},
            health_check_period_s=2.0,
        )(serve.ingress(app)(_Replica))
        serve.run(made.bind(), name="rubrank", route_prefix="/")
        stated(f"http://{config.host}:{config.port or 8300}")
        _until_ended()
    finally:
        serve.shutdown()
        ray.shutdown()


class _Replica:
    """What Serve holds: the app does everything."""


def _start_actors(ray: Any, config: ServiceConfig, folder: Path) -> None:
    common = {"namespace": NAMESPACE, "get_if_exists": True, "max_restarts": -1, "num_cpus": 0.1}
    siblings = ray.remote(SiblingsActor).options(name=SIBLINGS, max_concurrency=_CALLS, **common)
    limits = ray.remote(LimitsActor).options(name=LIMITS, **common)
    state = str(config.state_folder(folder))
    held = [siblings.remote(state, config.deadline, config.keep), limits.remote()]
    ray.get([held[0].ping.remote("start"), held[1].held.remote()])
    _kept.extend(held)  # an actor ends with its last handle


_kept: list[Any] = []


def _until_ended() -> None:
    ended = threading.Event()
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, lambda *_: ended.set())
    while not ended.wait(1.0):
        pass


__all__ = ["LIMITS", "SIBLINGS", "SiblingsActor", "check", "opened_on_ray", "serve_on_ray"]
