"""The files of an attempt that only this engine makes, by their names there. Used by its siblings."""

SCRIPT = "slurm.sh"
LOG = "slurm.log"
SUBMITTED = "slurm-submitted"
OVER = "slurm-over"
"""Made if Slurm has ended the job while runners may live: with the job's state, or REQUEUED."""

VARIABLES = "slurm-variables"
"""The job's variables from Slurm, for a worker that starts steps itself."""

BEGUN = "slurm-begun"
"""Made by the attempt's first job to begin, with its id, or by the engine to prevent any from beginning."""

NEXT = "slurm-next"
"""After a turn: the directory of the next attempt in the same job, or `none` if the job exits."""

COPIED = (SUBMITTED, BEGUN, OVER)
"""The files that are copied to the server's machine, if the site is another."""
