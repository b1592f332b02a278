"""What can be learnt from scores and records: replay, audit, conformance."""
