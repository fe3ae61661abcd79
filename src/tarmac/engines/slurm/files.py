"""The files that this engine adds to the directory of an attempt, by name. Called by all of `SlurmEngine`."""

from __future__ import annotations

SCRIPT_FILE = "slurm.sh"
LOG_FILE = "slurm.log"
SUBMITTED_FILE = "slurm-submitted"
OVER_FILE = "slurm-over"
"""Made where the job is over for Slurm, and its runners may live on: with its state, or REQUEUED."""

VARIABLES_FILE = "slurm-variables"
"""What Slurm gave the job, for a worker that starts steps itself."""

BEGUN_FILE = "slurm-begun"
"""Made by the first job of the attempt that begins, with its id in it, or by whoever keeps all from it."""

NEXT_FILE = "slurm-next"
"""After a turn: the directory of the attempt that runs in the same job, or `none` where the job leaves."""

COPIED_FILES = (SUBMITTED_FILE, BEGUN_FILE, OVER_FILE)
"""Those that are copied to the server's machine, where the site is another."""
