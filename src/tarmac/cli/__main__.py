"""`python -m tarmac.cli`: the same as the `tarmac` script."""

from tarmac.cli.main import main

main()
