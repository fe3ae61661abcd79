"""The module that scripts import names from which the package itself did not export.

Runs on Python 3.9: see the package.
"""

from __future__ import annotations

from .answer import LaunchStatus
from .client import BetaClient, Client
from .errors import AuthenticationError, SchedulingError
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
    "Resources",
    "SandboxParams",
    "SandboxletConfig",
    "SchedulingError",
]
