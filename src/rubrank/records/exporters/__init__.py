"""Destinations of records, one module each; see `rubrank.records.exporting`."""
