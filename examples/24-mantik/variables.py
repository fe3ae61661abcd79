"""Prints what a run of a Mantik configuration is given: its arguments, and every variable it is promised."""

import os
import sys

NAMES = ("TEST_ENV_VAR", "SRUN_CPUS_PER_TASK", "MANTIK_WORKING_DIRECTORY", "NNODES", "NODE_RANK", "N_PROC")

print("arguments", sys.argv[1:])
for name in NAMES:
    print(f"{name}={os.environ.get(name, '(not set)')}")
