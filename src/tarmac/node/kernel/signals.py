"""Signals processes that are not children of the caller, without ever hitting a reused pid.

Called by `descendants` and `orphans`.
"""

from __future__ import annotations

import os
import signal
from typing import Callable, Optional

from tarmac.node.kernel.procfs import Process, status


def send(process: Process, number: int, *, still: Optional[Callable[[], bool]] = None) -> bool:
    """Send a signal to exactly this process; False if it has ended.

    `still` checks a further condition after the process is held. Raises PermissionError if the process is
    another user's.
    """
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    except OSError:
        handle = -1  # an older kernel: the check and the signal are then two steps
    try:
        now = status(process.pid)
        if now is None or now.process != process or (still is not None and not still()):
            return False
        if handle < 0:
            os.kill(process.pid, number)
        else:
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        if handle >= 0:
            os.close(handle)
    return True
