"""Adapters: one module per training framework. docs/frameworks.md says how to connect each of them."""
