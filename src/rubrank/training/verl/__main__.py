"""`python -m rubrank.training.verl`: see `rubrank.training.frameworks.verl.__main__`."""

import runpy

if __name__ == "__main__":
    runpy.run_module("rubrank.training.frameworks.verl", run_name="__main__", alter_sys=True)
