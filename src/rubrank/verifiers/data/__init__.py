"""Answers that are data: JSON, SQL."""
