"""`python -m rubrank` is `rubrank`."""

from rubrank.cli import app

app(prog_name="rubrank")
