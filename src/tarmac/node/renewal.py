"""After an attempt: whether this process may serve another as if it were new. Called by `runner`.

What an attempt has changed of its runner is taken back where that is simple and sure, which it is for most:
the processes it started have ended, and the view of the disk is emptied. A runner that may have kept anything
else (a secret, an environment that is in use) ends with its attempt.
"""

from __future__ import annotations

import os

from tarmac.node.attempt import words
from tarmac.node.attempt.exit_outcome import ExitOutcome
from tarmac.node.kernel import mounts, procfs
from tarmac.node.noderun import NodeRun


def renew(run: NodeRun, end: ExitOutcome) -> bool:
    """Take back what the attempt changed of this process; False where it has to end instead."""
    if end.outcome != words.COMPLETED or not _is_plain(run) or _has_company():
        return False
    run.release()
    return mounts.take_back(run.mounted)


def _is_plain(run: NodeRun) -> bool:
    document = run.document
    special = document.secrets or document.setup or document.hooks or document.own_packages or run.part.mounts
    return run.namespace is not None and not special and document.container is None


def _has_company() -> bool:
    """Whether there are other processes in the namespace: below the runner, or of a person's session."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return procfs.pids() != [os.getpid()]
    return True
