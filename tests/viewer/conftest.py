"""Records for the viewer's tests: those of the report's."""

from report.conftest import bench, demo_records, graded, odd_records, record_of, rule_records

__all__ = ["bench", "demo_records", "graded", "odd_records", "record_of", "rule_records"]
