"""The names of the Clusterfudge client, over tarmac: scripts use `from tarmac import clusterfudge`.

`tarmac launch` runs an unchanged script: it puts `standin/` on the path, where this same package has the name
`clusterfudge`. The script may run on a Python without tarmac, so every module that it imports is plain Python
3.9, uses the standard library alone, and imports its siblings relatively. `gateway` and `broker` are tarmac's
own side and never imported there.
"""

from __future__ import annotations

from .answer import LaunchStatus
from .asking import show_errors_as_sentences
from .client import BetaClient, Client
from .errors import AuthenticationError, RequestError, SchedulingError, UnsupportedError
from .request import (
    ClusterfudgeConfig,
    CreateLaunchRequest,
    GitRepo,
    Job,
    LocalDir,
    OnReplicaFailureOtherReplicasAreStopped,
    OnReplicaFailureOtherReplicasContinue,
    Process,
    ProxiedPath,
    QueueingBehaviour,
    Resources,
    SandboxletConfig,
    SandboxParams,
)
from .sandboxes import SandboxClient

__all__ = [
    "AuthenticationError",
    "BetaClient",
    "Client",
    "ClusterfudgeConfig",
    "CreateLaunchRequest",
    "GitRepo",
    "Job",
    "LaunchStatus",
    "LocalDir",
    "OnReplicaFailureOtherReplicasAreStopped",
    "OnReplicaFailureOtherReplicasContinue",
    "Process",
    "ProxiedPath",
    "QueueingBehaviour",
    "RequestError",
    "Resources",
    "SandboxClient",
    "SandboxParams",
    "SandboxletConfig",
    "SchedulingError",
    "UnsupportedError",
]

show_errors_as_sentences()
