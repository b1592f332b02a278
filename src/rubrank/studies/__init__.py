"""Studies of scores and records: replay under other rules, audit of judges, calibration of cascades, conformance."""
