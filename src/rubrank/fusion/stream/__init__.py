"""Score files of any size, fused piece by piece."""
