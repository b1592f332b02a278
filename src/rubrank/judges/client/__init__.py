"""Calls over HTTP: endpoints, limits, retries; replies on disk, and what they took."""
