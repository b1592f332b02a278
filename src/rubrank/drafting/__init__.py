"""Rubrics drafted from prompts: compiled by rules, written by models, and kept if data supports them."""
