"""Audit of judges: their consistency, their agreement with other judges and with people, and their biases."""
