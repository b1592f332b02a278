"""Catastrophic output: what no other criterion can make up for."""
