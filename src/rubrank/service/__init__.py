"""The reward service: one process that owns rubric, judges, cache, limits and records for many trainers.

    service.py       what happens to one request, step by step: begin reading here; counters for Prometheus
    app.py           the routes, the token, and errors as responses
    requests.py      the JSON of requests: groups, and the formats of trainers that send samples one by one
    cohorts.py       samples that wait for their siblings, with a deadline
    store.py         what survives a restart: waiting samples, answers, the state of the rule
    config.py        the file of `rubrank serve`, and the plan that it prints
    server.py        the HTTP server of one process: TLS, limits on connections, signals, graceful shutdown
    replicas.py      the same app in several processes, on Ray Serve
    client.py        the other side: for verl's `compute_score`, for TRL, for programs

docs/service.md says how it is used.
"""
