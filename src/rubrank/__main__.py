"""`python -m rubrank` runs the command line, as `rubrank` does."""

from rubrank.cli.app import app

app(prog_name="rubrank")
