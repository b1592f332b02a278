"""The reward service: one process that owns rubric, judges, cache, limits and records for many trainers.

    config.py        the file of `rubrank serve`, and the plan that it prints
    server.py        the HTTP server of one process: TLS, limits on connections, signals, graceful shutdown
    app.py           the routes, token, bodies and errors;  schemas.py  JSON ⇄ groups and rewards
    service.py       what happens to one request, step by step: begin reading here
    cohorts.py       samples that wait for their siblings, with a deadline; store.py keeps them and their answers
    dialects.py      the request formats of trainers: OpenRLHF, slime and miles, NeMo Gym
    replicas.py      the same app on Ray Serve;  metrics.py  counters for Prometheus
    client.py        the other side: for verl's `compute_score`, for TRL, for programs

docs/service.md says how it is used.
"""
