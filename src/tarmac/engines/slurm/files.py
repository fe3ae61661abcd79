"""The names of files that this engine adds to the directory of an attempt. Called by all of `SlurmEngine`."""

from __future__ import annotations

SCRIPT_FILE = "slurm.sh"
LOG_FILE = "slurm.log"
SUBMITTED_FILE = "slurm-submitted"
OVER_FILE = "slurm-over"
"""Made if Slurm has ended the job while runners may live: with the job's state, or REQUEUED."""

VARIABLES_FILE = "slurm-variables"
"""The job's variables from Slurm, for a worker that starts steps itself."""

BEGUN_FILE = "slurm-begun"
"""Made by the attempt's first job to begin, with its id, or by the engine to prevent any from beginning."""

NEXT_FILE = "slurm-next"
"""After a turn: the directory of the next attempt in the same job, or `none` if the job exits."""

COPIED_FILES = (SUBMITTED_FILE, BEGUN_FILE, OVER_FILE)
"""The files that are copied to the server's machine, if the site is another."""
