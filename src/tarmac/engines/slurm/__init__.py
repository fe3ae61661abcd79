"""The Slurm engine: attempts are jobs of a Slurm cluster, local or reached over SSH."""

from tarmac.engines.slurm.kind import SlurmKind

__all__ = ["SlurmKind"]
