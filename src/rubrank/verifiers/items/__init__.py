"""Whole items of public benchmarks."""
