"""Replay of logged scores under other rules, with filters and transforms of scores, and the cost of fusion."""
