"""Read tables of any format into memory, find their columns, check their cells, and write tables."""
