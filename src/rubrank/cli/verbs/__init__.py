"""What the command line's verbs do and show."""
