"""The kinds of judges: those that score (`scores`, `decision`), those that compare, and panels of several."""
