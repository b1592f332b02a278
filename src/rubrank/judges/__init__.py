"""The ways of asking a judge, and the client that asks. The contract is in `rubrank.judge`."""
