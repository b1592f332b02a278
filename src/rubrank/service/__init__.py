"""The reward service: one process that owns rubric, judges, cache, limits and records for many trainers.

    config.py        what the file of `rubrank serve` holds
    service.py       the service itself: groups, single rollouts, samples whose siblings come one by one
    pipeline.py      many requests, one engine: graded and fused together, in one thread
    wire.py          JSON ⇄ groups, rewards, errors
    cohorts.py       siblings that come one at a time, with a deadline; store.py keeps them and their answers on disk
    dialects/        what trainers already speak: OpenRLHF, slime and miles, NeMo Gym
    app.py           the routes; access.py  token, bodies, errors;  metrics.py  Prometheus
    running.py       the server of one process: TLS, signals, an orderly end
    replicas.py      the same app on Ray Serve
    client.py        the other side: for verl's `compute_score`, for TRL, for programs

docs/service.md says how it is used.
"""
