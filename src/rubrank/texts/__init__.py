"""Cutting text into words, sentences and Markdown blocks: what `rubrank.text` is made of."""
