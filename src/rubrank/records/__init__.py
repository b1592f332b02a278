"""Making, reading and writing the records of `rubrank.records.record`."""
