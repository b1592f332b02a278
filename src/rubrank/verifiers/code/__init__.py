"""The verifier CodePasses: runs programs in several languages in the sandbox."""
