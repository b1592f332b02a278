"""The ways of asking a judge, one file each."""
