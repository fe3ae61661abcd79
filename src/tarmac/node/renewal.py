"""After an attempt: whether this process may serve another like a new one. Called by `runner`.

The runner reverts an attempt's changes to itself if that is simple and certain, as for most attempts: the
started processes have ended, and the mounts are removed. A runner that may retain anything else (a secret, an
environment in use) ends with its attempt.
"""

from __future__ import annotations

import os

from tarmac.node.attempt import words
from tarmac.node.attempt.exit_outcome import ExitOutcome
from tarmac.node.kernel import mounts, procfs
from tarmac.node.noderun import NodeRun


def renew(run: NodeRun, end: ExitOutcome) -> bool:
    """Revert the attempt's changes to this process; False if the process must end instead."""
    if end.outcome != words.COMPLETED or not _is_plain(run) or _has_company():
        return False
    run.release()
    return mounts.take_back(run.mounted)


def _is_plain(run: NodeRun) -> bool:
    document = run.document
    special = document.secrets or document.setup or document.hooks or document.own_packages or run.part.mounts
    return run.namespace is not None and not special and document.container is None


def _has_company() -> bool:
    """Whether the namespace has other processes: below the runner, or of a person's session."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return procfs.pids() != [os.getpid()]
    return True
