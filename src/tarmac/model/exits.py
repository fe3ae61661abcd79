"""The exit code of a client that followed a run to its end. Called by the server's records."""

from __future__ import annotations

from signal import Signals

from tarmac.model.run import Cause, Outcome


def exit_status(outcome: Outcome | None, cause: Cause | None) -> int:
    """The exit code of a client that followed a run to its end: the run's own.

    A worker's exit code is passed on as it is, a signal as 128 + its number like a shell does; a run
    that a user stopped gives 143, any other failure 1.
    """
    if outcome is Outcome.COMPLETED:
        return 0
    if outcome is Outcome.STOPPED:
        return 128 + _SIGNALS["SIGTERM"]
    if cause is not None and cause.exit_code:
        return cause.exit_code
    if cause is not None and cause.signal in _SIGNALS:
        return 128 + _SIGNALS[cause.signal]
    return 1


_SIGNALS = {item.name: int(item) for item in Signals}
