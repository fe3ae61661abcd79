"""The states of UNICORE's jobs, in the words of Slurm that `engines/slurm/states` explains. Called by `jobs`.

UNICORE knows whether a job waits, runs or has ended; why it ended, only the batch system knows.
"""

READY = "READY"
"""The state of a job that was created and not started: nothing of it has run."""

SUCCESSFUL, FAILED = "SUCCESSFUL", "FAILED"
ENDED = frozenset({SUCCESSFUL, FAILED})
WAITING = frozenset({READY, "STAGINGIN", "QUEUED"})

SLURM_STATES = {
    READY: "PENDING",
    "STAGINGIN": "PENDING",
    "QUEUED": "PENDING",
    "RUNNING": "RUNNING",
    "STAGINGOUT": "COMPLETING",
    SUCCESSFUL: "COMPLETED",
    FAILED: "FAILED",
}
"""A row for each documented state but UNDEFINED, which shows nothing, like any unknown word."""

NO_BATCH_JOB = ("", "N/A")
"""The words of `batchSystemID` for a job that the batch system does not have."""
