"""Making, reading and writing the records of `rubrank.record`."""
