"""Programs in several languages, run in the sandbox."""
