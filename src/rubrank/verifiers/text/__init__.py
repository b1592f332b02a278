"""Texts compared with references, materials and rules of writing."""
