"""The engine of a Slurm: attempts are its jobs, on this machine or where SSH reaches it."""

from tarmac.engines.slurm.kind import SlurmKind

__all__ = ["SlurmKind"]
