"""Texts: their words, sentences and Markdown, their reasoning, and what a reader sees of them."""
