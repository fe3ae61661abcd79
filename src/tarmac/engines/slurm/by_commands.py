"""`CommandAccess`: a Slurm reached by its commands, on this machine or behind SSH. Made by `SlurmEngine`."""

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tarmac.engines.hosts.host import Host
from tarmac.engines.slurm import files, partition, queue
from tarmac.engines.slurm.access import Examined
from tarmac.engines.slurm.account_limits import AccountLimits
from tarmac.engines.slurm.commands import ENVIRONMENT, Commands
from tarmac.engines.slurm.examining import findings
from tarmac.engines.slurm.partition import NO_LIMITS, Partition
from tarmac.engines.slurm.queue import NAME_PREFIX, Job, Place, Places
from tarmac.engines.slurm.script import SlurmRequest
from tarmac.engines.slurm.settings import PoolSettings, SlurmSettings
from tarmac.engines.slurm.states import Reason
from tarmac.model.cluster import Finding
from tarmac.model.errors import Unavailable
from tarmac.node.starting import Installation

SESSION_STEP = (
    *("srun", "--overlap", "--nodes=1", "--ntasks=1", "--mem=0", "--cpu-bind=none"),
    *("--unbuffered", "--quiet", "--export=ALL"),
)
"""Overlaps the runner, which has all resources of the job; passes on each byte at once."""


class CommandAccess:
    """Implements `SlurmAccess` by commands on a host.

    `every_s` is the interval of reads of the site's whole queue; `tell` is called with an attempt whose job
    was found to exceed a limit.
    """

    def __init__(
        self,
        cluster: str,
        settings: SlurmSettings,
        host: Host,
        tell: Callable[[str], None],
        *,
        every_s: float,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._host = host
        self._commands = commands = Commands(host=host)
        self._places = Places(commands, every_s=every_s)
        self._limits = AccountLimits(commands, tell, every_s=every_s)
        self._accounts = True
        self.place_of: Callable[[str], Place | None] = self._places.place_of
        self.exceeded_by: Callable[[Job], Reason | None] = self._limits.exceeded_by
        self.cancel: Callable[[Sequence[str]], None] = commands.cancel

    def jobs(self) -> Mapping[str, Sequence[Job]]:
        return queue.parse_queue(self._commands.query(queue.SQUEUE))

    def recorded(self, job_ids: Sequence[str]) -> Sequence[Job]:
        return self._account([f"--jobs={','.join(job_ids)}"])

    def named(self, attempt_id: str) -> Job | None:
        recorded = self._account([f"--name={NAME_PREFIX}{attempt_id}"])
        return next((job for job in recorded if job.attempt_id == attempt_id), None)

    def submit(self, request: SlurmRequest, variables: Mapping[str, str]) -> str | None:
        return self._commands.submit(str(request.directory / files.SCRIPT), variables)

    def partitions(self) -> Mapping[str, Partition]:
        nodes = self._commands.query(["scontrol", "show", "nodes", "-o"])
        partitions = partition.parse_partitions(self._commands.query(["scontrol", "show", "partition", "-o"]))
        return {pool.name: self._found(pool, nodes, partitions) for pool in self._settings.pools}

    def open_session(self, job_id: str, node: str, installation: Installation) -> socket.socket:
        """The far end is a step of the job, on the node of the worker.

        Its standard streams are the connection: `srun` passes them on, and ssh does so to another machine.
        """
        mark = f"tarmac-{os.urandom(12).hex()}"
        place = [f"--jobid={job_id}", *self._component(job_id, node), f"--nodelist={node}"]
        argv = [*SESSION_STEP, *place, *installation.session_on_streams(mark)]
        return socket.socket(fileno=self._host.stream(argv, variables=ENVIRONMENT, mark=mark))

    def examine(self, examined: Examined) -> Sequence[Finding]:
        return findings(self._settings, self._host, examined)

    # --- inside ----------------------------------------------------------------------------------

    def _account(self, which: Sequence[str]) -> list[Job]:
        """Records in accounting, if the site has it."""
        if not self._accounts:
            return []
        try:
            answer = self._commands.run([*queue.SACCT, f"--starttime={queue.REMEMBERED}", *which])
        except Unavailable:
            return []  # the queue answered: its answer alone counts
        if answer.code != 0:
            self._accounts = "storage is disabled" not in answer.err
            return []
        return list(queue.parse_accounting(answer.out))

    def _found(
        self, pool: PoolSettings, nodes: str, partitions: Mapping[str, Mapping[str, str]]
    ) -> Partition:
        names = pool.partition.split(",")
        found = partition.parse_nodes(
            nodes, cluster=self._cluster, partition=pool.partition, gpu_type=pool.gpu_type, pool=pool.name
        )
        limits = [
            partition.parse_limits(partitions[name]) if name in partitions else NO_LIMITS for name in names
        ]
        return replace(found, limits=partition.widest(limits))

    def _component(self, job_id: str, node: str) -> list[str]:
        """The option for the component of a heterogeneous job that has the node. Raises Unavailable."""
        lines = self._commands.query(["squeue", "--noheader", f"--jobs={job_id}", "--format=%i|%N"])
        for line in lines.splitlines():
            number, _, nodes = line.strip().partition("|")
            if (
                "+" in number
                and node in self._commands.query(["scontrol", "show", "hostnames", nodes]).split()
            ):
                return [f"--het-group={number.partition('+')[2]}"]
        return []
