"""Calls over HTTP: endpoints, limits, retries; replies on disk, and their usage."""
