"""A solution and its tests, each in a sandbox of its own, exchanging plain data over a pipe.

    tests_process.py (the tests' sandbox)  ──pipe──>  solution_process.py (the solution's sandbox)

The modules here run inside the sandboxes: they use the standard library, each other and
`shared/inside/children.py`, and nothing else of rubrank.
"""
