"""Attribute control: measure what must not be rewarded, estimate its influence, and take it out of the verdicts."""
