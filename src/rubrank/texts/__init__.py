"""Cutting text into words, sentences and Markdown blocks: what `rubrank.texts.text` is made of."""
