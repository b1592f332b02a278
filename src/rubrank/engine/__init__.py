"""How verdicts are computed: bound calls, worker processes, the cache, the sandbox."""
