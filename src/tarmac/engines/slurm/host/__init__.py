"""The host of a cluster, where Slurm's commands work: all I/O of the engine there goes through it."""

from tarmac.engines.slurm.host.host import Host, Reach
from tarmac.engines.slurm.host.local import local_host

__all__ = ["Host", "Reach", "local_host"]
