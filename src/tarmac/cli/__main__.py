"""`python -m tarmac.cli`: the same as the `tarmac` script."""

from tarmac.cli.main import run_process

run_process()
