"""Calls to judge models over HTTP: endpoints, limits, retries, replies on disk, and usage. Begin with `client.py`."""
