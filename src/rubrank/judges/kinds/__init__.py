"""The kinds of judges: those that score, those that compare, and panels of several."""
