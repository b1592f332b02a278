"""The demo: bundled responses and the replies of a judge."""
