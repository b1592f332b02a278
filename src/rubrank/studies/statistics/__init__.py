"""How alike raters rate and rules rank: agreement, rank correlation, intervals by resampling."""
