"""A solution and its tests, each in a sandbox of its own: they exchange plain data over a pipe, and nothing else.

    tests_side.py (the tests' sandbox)  ──pipe──>  solution_side.py (the solution's sandbox)

The modules here run inside the sandboxes: standard library alone, and nothing of rubrank but each other and
`shared/sandboxes/children.py`.
"""
