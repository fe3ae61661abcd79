"""This process's deliveries to the engine. After a restart they are repeated: all deliveries are idempotent.

Owned by `ControlState`, for the deliver pass.
"""

from __future__ import annotations

from tarmac.model.leaving import LeaveRequest


class Deliveries:
    """Submitted attempts and delivered leave requests, by attempt id; written by one thread."""

    def __init__(self) -> None:
        self._submitted: set[str] = set()
        self._leave_requests: dict[str, LeaveRequest] = {}
        self._refused: dict[str, str] = {}
        self._not_before: dict[str, float] = {}
        self._at_last_cleanup = 0

    def __len__(self) -> int:
        """The number of attempts recorded since ended ones were last forgotten."""
        return len(self._submitted) - self._at_last_cleanup

    def submitted(self, attempt_id: str) -> bool:
        """Whether the engine took the attempt."""
        return attempt_id in self._submitted

    def note_submitted(self, attempt_id: str) -> None:
        self._submitted.add(attempt_id)
        self._not_before.pop(attempt_id, None)

    def has_leave_request(self, attempt_id: str, ask: LeaveRequest) -> bool:
        """Whether exactly this request was delivered last."""
        return self._leave_requests.get(attempt_id) is ask

    def note_leave_request(self, attempt_id: str, ask: LeaveRequest) -> None:
        self._leave_requests[attempt_id] = ask

    def refuse(self, attempt_id: str, reason: str) -> None:
        """Record that the engine will never take this attempt: it is not submitted again, and ends."""
        self._submitted.add(attempt_id)
        self._refused[attempt_id] = reason

    def refusal(self, attempt_id: str) -> str | None:
        """The reason why the engine will never take this attempt."""
        return self._refused.get(attempt_id)

    def postpone(self, attempt_id: str, until: float) -> None:
        """Postpone this attempt until then: the engine could not take it."""
        self._not_before[attempt_id] = until

    def due(self, attempt_id: str, now: float) -> bool:
        """Whether the attempt is not postponed."""
        return self._not_before.get(attempt_id, now) <= now

    def keep_only(self, attempt_ids: set[str]) -> None:
        """Forget attempts that are no longer live."""
        self._submitted &= attempt_ids
        for table in (self._leave_requests, self._refused, self._not_before):
            for gone in [key for key in table if key not in attempt_ids]:
                del table[gone]
        self._at_last_cleanup = len(self._submitted)
