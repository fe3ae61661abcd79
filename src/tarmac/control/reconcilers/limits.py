"""Charges accounts of credits, warns of their end, and stops runs without credits. Run by its own loop.

It also brings the use of slot-hours up to date. Without limits and grants, it only looks for new ones.
"""

from tarmac.control.decisions.notifications import credit_messages
from tarmac.control.decisions.steps import stop_for
from tarmac.control.limits import refresh_limits
from tarmac.control.state.control_state import ControlState
from tarmac.control.state.event_bus import Wakeup
from tarmac.model.lifecycle import RunState
from tarmac.model.people.limits import CreditAccount, CreditEntry, EntryKind, accounts_of
from tarmac.model.progress import Cause, CauseCode

LEAST_PAUSE_S = 5.0
"""The least time between two turns: many attempts may begin and end in it."""

_AT_WORK = frozenset({RunState.STARTING, RunState.RUNNING})


def limits_pass(control: ControlState) -> float | None:
    """One turn; returns the time of the next one, if this one came too early."""
    limits, now = control.limits, control.clock.now()
    if limits.metered and limits.refreshed_at <= now < limits.refreshed_at + LEAST_PAUSE_S:
        return limits.refreshed_at + LEAST_PAUSE_S
    before = limits.caps
    for account in refresh_limits(control):
        _warn(control, account, now)
    if limits.caps != before:
        control.event_bus.notify(Wakeup.SCHEDULE)
    _stop(control, {each.account: each for each in limits.accounts if each.balance <= 0.0}, now)
    return None


def _warn(control: ControlState, account: CreditAccount, now: float) -> None:
    """Send the messages, then add the entry: after a crash in between, the same messages are dropped."""
    paid = (run for run in control.live_runs() if account.account in accounts_of(run.user, run.project))
    control.store.notifications.add(credit_messages(paid, control.subscriptions.of, account, now))
    control.event_bus.notify(Wakeup.NOTIFY)
    name, key = account.account, f"warned/{account.refill}"
    entry = CreditEntry(account=name, kind=EntryKind.WARNING, at=now, amount=0.0, key=key)
    control.store.limits.add([entry])


def _stop(control: ControlState, spent: dict[str, CreditAccount], now: float) -> None:
    """Request the runs of used up accounts to leave, with their usual grace."""
    stops = []
    for run, attempt in control.live() if spent else ():
        account = next(filter(None, map(spent.get, accounts_of(run.user, run.project))), None)
        if account is not None and run.state in _AT_WORK and attempt.current_allocation.slots:
            cause = Cause(code=CauseCode.CREDITS_EXHAUSTED, message=account.cap.text)
            stops.append(stop_for(run, attempt, cause, now))
    control.commit(stops, lease=control.serving)
