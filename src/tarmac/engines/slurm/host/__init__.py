"""The host of a cluster, where Slurm's commands work: all I/O of the engine there goes through it."""

from tarmac.engines.slurm.host.host import Host, Reached
from tarmac.engines.slurm.host.local import local_host
from tarmac.engines.slurm.host.remote import ssh_host
from tarmac.engines.slurm.host.ssh import Ssh

__all__ = ["Host", "Reached", "Ssh", "local_host", "ssh_host"]
