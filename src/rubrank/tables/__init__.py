"""Tables of any format, read whole into memory: which columns hold what, one check of all cells, and the output."""
