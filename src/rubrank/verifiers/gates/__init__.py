"""Catastrophic output, a file for each gate: what no other criterion can make up for. A gate speaks of what is sure."""
