"""`python -m rubrank` is `rubrank`."""

from rubrank.cli.app import app

app(prog_name="rubrank")
