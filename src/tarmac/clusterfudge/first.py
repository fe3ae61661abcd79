"""The names of the first version of the Clusterfudge client: one command for a launch, on named hosts.

Runs on Python 3.9: see the package.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

from .answer import Launch
from .client import Client
from .request import CreateLaunchRequest, GitRepo, Job, Process, Resources


@dataclass
class FirstLaunchRequest:
    """A launch of one command."""

    command: Sequence[str] = ()
    hostnames: Sequence[str] = ()
    replicas: int = 1
    replica_resources: Resources | None = None
    title: str = ""
    description: str = ""
    shard: str = ""
    cluster: str = ""
    git_repo: str = ""
    git_branch: str = ""
    git_commit: str = ""
    jobs: Sequence[Job] = field(default_factory=list)

    def today(self) -> CreateLaunchRequest:
        """The same request in the current form."""
        process = Process(self.command, self.replica_resources)
        return CreateLaunchRequest(
            jobs=self.jobs or [Job("launch", self.replicas, [process])],
            name=self.title or None,
            description=self.description or None,
            deployment=GitRepo(self.git_repo, self.git_branch, self.git_commit or None)
            if self.git_repo
            else None,
            cluster=self.cluster or None,
            shard=self.shard or None,
            hostnames=self.hostnames,
        )


class FudgeClient(Client):
    """The client of that version."""

    def create_launch(self, create_launch_request: FirstLaunchRequest | CreateLaunchRequest) -> Launch:
        """Launch, like `Client.create_launch`."""
        request = create_launch_request
        if isinstance(request, FirstLaunchRequest):
            request = request.today()
        return self._create(request, script=sys._getframe(1).f_code.co_filename)


launches_pb2 = SimpleNamespace(CreateLaunchRequest=FirstLaunchRequest)
"""The module in which that version defined its request."""
