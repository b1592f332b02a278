"""The reward service on Ray Serve: several replicas of the app (`app.py`), which share two actors.

    serve_on_ray(config, folder, replicas=2)

    rubrank-cohorts      collects the samples of a group, whichever replicas they were sent to; stores answers on disk
    rubrank-limits       divides the limits of the judges' endpoints among the replicas (judges/client/limits.py)

Replicas grade, judge and fuse. A replica that dies is detected after a few seconds: its share of the limits is freed,
the samples of its callers stay in their groups, and another replica gets the groups that it was scoring. When its
callers try again, as trainers do, their samples are recognised. Replicas on one machine share the cache of judges'
replies; each writes its own records.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rubrank.errors import InvalidInput
from rubrank.grading.cluster import start_ray
from rubrank.judges.client.limits import LEASE, LimitsActor
from rubrank.judges.client.runtime import share_limits_through
from rubrank.service.app import OpenService, make_app
from rubrank.service.cohorts import Cohorts
from rubrank.service.config import ServiceConfig
from rubrank.service.requests import make_shutdown_error
from rubrank.service.service import Service, open_service
from rubrank.service.store import ServiceStore

T = TypeVar("T")
_OWNER = "serve"
COHORTS_ACTOR = "rubrank-cohorts"
LIMITS_ACTOR = "rubrank-limits"
NAMESPACE = "rubrank"
_PING_SECONDS = LEASE / 10  # as often as a replica reports to the actor of the limits
_DEAD_AFTER_SECONDS = 5.0  # without a ping or call from a replica
_MOST_CALLS = 100_000  # calls that may wait in an actor or replica at the same time
_OBJECT_STORE_BYTES = 128 << 20  # small, because nothing large goes through it
_DEFAULT_PORT = 8300
_PROXY_TIMEOUTS = {
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",
    "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "60",
}
"""By default Ray Serve waits five seconds for its proxy, which is too short on a busy machine."""


@dataclass(frozen=True)
class ActorReply:
    """A result or an error. Errors are returned, because Ray would wrap a raised error in a class of its own."""

    value: Any = None
    error: Exception | None = None


class CohortsActor:
    """The cohorts of all replicas, in an actor: a process of its own. A cohort is a group whose samples are arriving.

    deadline, keep: seconds, see `Cohorts`.
    """

    def __init__(self, folder: str, deadline: float, keep: float) -> None:
        self._store = ServiceStore(Path(folder) / "service.sqlite")
        self._deadline = deadline
        self._keep = keep
        self._cohorts: Cohorts | None = None
        self._last_seen: dict[str, float] = {}
        """Replica → the time (monotonic, in seconds) of its last ping or call."""
        self._watch: asyncio.Task[None] | None = None

    def get_cohorts(self) -> Cohorts:
        """Return the cohorts; made at the first call, because they belong to the event loop of the actor."""
        if self._cohorts is None:
            self._cohorts = Cohorts(self._store, deadline=self._deadline, keep=self._keep)
            self._watch = asyncio.get_running_loop().create_task(
                self._watch_replicas(self._cohorts)
            )
        return self._cohorts

    async def call(
        self, replica: str, method: Callable[..., Awaitable[Any]], *arguments: Any
    ) -> ActorReply:
        """Call a method of `Cohorts` for a replica.

        method: the function of the class, such as `Cohorts.add_sample`; Ray pickles it by its name.
        """
        self._last_seen[replica] = time.monotonic()
        try:
            return ActorReply(await method(self.get_cohorts(), *arguments))
        except asyncio.CancelledError:  # the replica was considered dead, but is alive
            return ActorReply(error=make_shutdown_error())
        except Exception as error:
            return ActorReply(error=error)

    async def ping(self, replica: str) -> None:
        """Note that the replica is alive."""
        self.get_cohorts()
        self._last_seen[replica] = time.monotonic()

    def close(self) -> None:
        """Write everything to disk."""
        self._store.close()

    async def _watch_replicas(self, cohorts: Cohorts) -> None:
        """Remove the callers of replicas that have neither called nor pinged for a while. Runs until the actor ends."""
        while True:
            await asyncio.sleep(_PING_SECONDS)
            now = time.monotonic()
            for replica, last_seen in list(self._last_seen.items()):
                if now - last_seen > _DEAD_AFTER_SECONDS:
                    del self._last_seen[replica]
                    cohorts.remove_replica(replica)


class RemoteCohorts:
    """The cohorts in the actor, as one replica calls them."""

    def __init__(self, actor: Any, replica: str) -> None:
        self.replica = replica
        self._actor = actor

    async def call(self, method: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """Call a method of `Cohorts` in the actor; raises what it raised there."""
        from ray.exceptions import RayActorError

        try:
            reply = await self._actor.call.remote(self.replica, method, *arguments)
        except RayActorError:
            # Ray restarts the actor, which loads its state from disk; callers try again.
            raise make_shutdown_error() from None
        if reply.error is not None:
            raise reply.error
        value: T = reply.value
        return value

    async def keep_alive(self) -> None:
        """Ping the actor at regular intervals, until the task is cancelled."""
        while True:
            with suppress(Exception):  # the actor may be restarting; the next ping reaches it
                await self._actor.ping.remote(self.replica)
            await asyncio.sleep(_PING_SECONDS)


def make_replica_opener(config: ServiceConfig, folder: Path) -> OpenService:
    """Return the function with which the app opens the service of one replica."""
    secret = config.read_secret(folder)

    @asynccontextmanager
    async def open_replica() -> AsyncIterator[tuple[Service, str | None]]:
        import ray

        replica = f"{os.uname().nodename}-{os.getpid()}"  # used in file names
        cohorts = RemoteCohorts(ray.get_actor(COHORTS_ACTOR, NAMESPACE), replica)
        service = await open_service(config, folder, cohorts, replica)
        if service.engine.judges is not None:
            share_limits_through(ray.get_actor(LIMITS_ACTOR, NAMESPACE), replica)
        keep_alive = asyncio.get_running_loop().create_task(cohorts.keep_alive())
        try:
            yield service, secret
        finally:
            await service.close()
            keep_alive.cancel()

    return open_replica


def check_replicas(config: ServiceConfig, folder: Path) -> None:
    """Raise InvalidInput for settings that do not work with several replicas."""
    if config.certificate is not None:
        raise InvalidInput(
            _OWNER,
            "certificate",
            allowed="left out with replicas on Ray",
            got="given",
            remedy="Put a proxy with TLS in front of it.",
        )
    if config.make_engine(folder).remembers:
        raise InvalidInput(
            _OWNER,
            "rule",
            allowed="a rule that does not learn if there are replicas, because each would learn separately",
            got=config.rule,
            remedy="Serve it with one process.",
        )


def serve_on_ray(
    config: ServiceConfig,
    folder: Path,
    *,
    replicas: int = 2,
    address: str | None = None,
    on_listening: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until a signal ends it. address: of a Ray cluster; None: one on this machine, started for the service."""
    for name, value in _PROXY_TIMEOUTS.items():
        os.environ.setdefault(name, value)
    import ray
    from ray import serve

    check_replicas(config, folder)
    folder = folder.resolve()
    start_ray(
        ray,
        address,
        _OWNER,
        namespace=NAMESPACE,
        object_store_memory=_OBJECT_STORE_BYTES,
        num_cpus=2 * replicas + 2,
    )
    try:
        # Ray ends an actor when its last handle is gone, so they are held until the service ends.
        actors = _start_actors(ray, config, folder)
        port = config.port or _DEFAULT_PORT
        serve.start(http_options={"host": config.host, "port": port})
        app = make_app(make_replica_opener(config, folder))
        deployment = serve.deployment(
            num_replicas=replicas,
            max_ongoing_requests=_MOST_CALLS,
            graceful_shutdown_timeout_s=config.shutdown + 5.0,
            ray_actor_options={"num_cpus": 1},
            health_check_period_s=2.0,
        )(serve.ingress(app)(_Replica))
        serve.run(deployment.bind(), name="rubrank", route_prefix="/")
        on_listening(f"http://{config.url_host}:{port}")
        ended = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: ended.set())
        while not ended.wait(1.0):
            pass
        del actors
    finally:
        serve.shutdown()
        ray.shutdown()


class _Replica:
    """The class that Serve deploys; the app does everything."""


def _start_actors(ray: Any, config: ServiceConfig, folder: Path) -> list[Any]:
    """Start the two shared actors, or find those of an earlier start; returns when both answer."""
    common = {"namespace": NAMESPACE, "get_if_exists": True, "max_restarts": -1, "num_cpus": 0.1}
    cohorts_class = ray.remote(CohortsActor).options(
        name=COHORTS_ACTOR, max_concurrency=_MOST_CALLS, **common
    )
    cohorts = cohorts_class.remote(str(config.state_folder(folder)), config.deadline, config.keep)
    limits = ray.remote(LimitsActor).options(name=LIMITS_ACTOR, **common).remote()
    # Any call would do: it returns when the actor runs. "start" is no replica, and is forgotten after some seconds.
    ray.get([cohorts.ping.remote("start"), limits.report.remote("start", {})])
    return [cohorts, limits]
