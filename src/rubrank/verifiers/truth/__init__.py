"""Answers compared with a known one."""
