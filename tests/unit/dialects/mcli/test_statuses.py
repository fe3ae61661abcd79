"""MCLI's words for every state a run can be in."""

from __future__ import annotations

import pytest

from tarmac.dialects.dialect import Report
from tarmac.model.lifecycle import RunState
from tarmac.model.progress import CauseCode, Outcome
from tarmac.systems.mcli.dialect import MCLI
from tarmac.systems.mcli.statuses import Status

_S, _O = RunState, Outcome


@pytest.mark.parametrize(
    ("report", "word"),
    [
        (Report(state=_S.PENDING), "Pending"),
        (Report(state=_S.QUEUED), "Queued"),
        (Report(state=_S.QUEUED, attempt=1), "Queued"),
        (Report(state=_S.STARTING), "Starting"),
        (Report(state=_S.RUNNING), "Running"),
        (Report(state=_S.PAUSING), "Terminating"),
        (Report(state=_S.PREEMPTING), "Terminating"),
        (Report(state=_S.STOPPING), "Terminating"),
        (Report(state=_S.PAUSED), "Stopped"),
        (Report(state=_S.ENDED, outcome=_O.COMPLETED), "Completed"),
        (Report(state=_S.ENDED, outcome=_O.STOPPED), "Stopped"),
        (Report(state=_S.ENDED, outcome=_O.FAILED, cause=CauseCode.EXIT_CODE), "Failed"),
        (Report(state=_S.ENDED, outcome=_O.FAILED, cause=CauseCode.IMAGE_PULL), "FailedPull"),
        (Report(state=_S.ENDED), "Unknown"),
    ],
)
def test_a_run_has_the_status_that_mcli_would_show(report: Report, word: str) -> None:
    """M4: the words of both eras; FailedPull is the source document's."""
    assert MCLI.status(report) == word


def test_every_state_has_a_word() -> None:
    words = [MCLI.status(Report(state=state)) for state in RunState if state is not _S.ENDED]
    assert Status.UNKNOWN not in words
