"""Rubrics from prompts."""
