"""The engine of a Slurm whose commands run on this machine and whose nodes share a directory with it."""

from tarmac.engines.slurm.engine import SlurmEngine
from tarmac.engines.slurm.installing import Sidecar
from tarmac.engines.slurm.kind import SlurmKind

__all__ = ["Sidecar", "SlurmEngine", "SlurmKind"]
