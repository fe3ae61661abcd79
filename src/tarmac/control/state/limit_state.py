"""Limits and accounts as this server knows them, and their use. Owned by `ControlState`.

Without any limit or grant, it knows no caps, and reads no usage.
"""

from collections.abc import Iterable, Sequence
from threading import Lock

from tarmac.control.decisions.credits import Accounts, charges, is_due_to_warn
from tarmac.control.state.run_cache import RunCache
from tarmac.model.changes import HOUR_S
from tarmac.model.cluster import Pool
from tarmac.model.codec import replace
from tarmac.model.people import limits as model
from tarmac.model.people.limits import Cap, CreditAccount, LimitKind, SlotUse
from tarmac.model.people.usage import DAY_S, AttemptSpan, month_begin
from tarmac.model.ports import Store
from tarmac.model.run import Attempt, Run, attempt_id
from tarmac.sched import LimitBook

CHARGE_PERIOD_S = 600.0
"""The period of charges for running attempts; ended ones are charged at once."""

LimitFacts = tuple[tuple[Cap, ...], tuple[SlotUse, ...]]
"""The caps, and the slots that runs hold on clusters that place runs themselves."""

_Spans = Sequence[AttemptSpan]


class LimitState:
    """The limits, accounts and caps of the last refresh. Thread-safe."""

    def __init__(self, store: Store, *, known: bool) -> None:
        """`known`: there are no limits, and never will be."""
        self._store, self._lock = store, Lock()
        self._read_for: object = None
        self._read_from = self._charged_at = 0.0
        self._live: dict[str, float] = {}
        self._used: dict[tuple[str, int], tuple[SlotUse, float]] = {}
        self.known, self.metered, self.refreshed_at = known, False, 0.0
        self.limits: tuple[model.Limit, ...] = ()
        self.accounts: tuple[CreditAccount, ...] = ()
        self.caps: tuple[Cap, ...] = ()

    def facts(self, cache: RunCache, pools: Iterable[Pool], now: float) -> LimitFacts:
        """The facts for the scheduler. Reads limits and usage on the first call."""
        if not self.known:
            self.refresh(cache.attempts.values(), pools, now)
        delegated = (each for each in cache.attempts.values() if each.delegated) if self.caps else ()
        return self.caps, tuple(use_of(cache.runs[each.run_id], each) for each in delegated)

    def book(self, cache: RunCache) -> LimitBook | None:
        """The caps, and the slots of all live attempts; None without caps."""
        uses = (use_of(cache.runs[run_id], attempt) for run_id, attempt in cache.attempts.items())
        return LimitBook(self.caps, uses) if self.caps else None

    def refresh(self, live: Iterable[Attempt], pools: Iterable[Pool], now: float) -> list[CreditAccount]:
        """Read limits and usage, and charge; returns the accounts whose owners have to be warned."""
        begins = {each.id: each.created_at for each in live}
        with self._lock:
            self.limits = tuple(self._store.limits.limits())
            accounts = {each.account: each for each in self._store.limits.accounts()}
            hourly = model.caps_of(self.limits, LimitKind.SLOT_HOURS)
            month_at = month_begin(now) if hourly else now
            self.known, self.metered, self.refreshed_at = True, bool(accounts or hourly), now
            spans = self._spans(accounts, month_at, begins, now) if self.metered else ()
            self._charge(spans, accounts, pools, now)
            lasting = (LimitKind.SLOTS, LimitKind.LARGEST, LimitKind.LONGEST)
            spent = (each.cap for each in self.accounts if each.balance <= 0.0)
            used_up = self._used_up(spans, hourly, month_at, now)
            self.caps = (*model.caps_of(self.limits, *lasting), *used_up, *spent)
            return [account for account in self.accounts if is_due_to_warn(account)]

    def _spans(self, accounts: Accounts, month_at: float, begins: dict[str, float], now: float) -> _Spans:
        """The attempts whose usage may have changed since the last call.

        The end of an attempt may be reported late: one that was live then is read from its begin.
        """
        ended = (begin for attempt, begin in self._live.items() if attempt not in begins)
        read_for, since = (tuple(accounts), month_at < now and month_at), min(self._read_from, *ended, now)
        if read_for != self._read_for:
            granted_at = min((each.since for each in accounts.values()), default=now)
            charged_at = max((each.last_at for each in accounts.values()), default=now) - DAY_S
            since = min(*begins.values(), max(charged_at, granted_at), month_at)
            self._used = {}
        self._read_for, self._read_from, self._live = read_for, now - HOUR_S, begins
        return self._store.attempt_spans(since, now)

    def _used_up(self, spans: _Spans, hourly: Sequence[Cap], month_at: float, now: float) -> list[Cap]:
        """The caps on slot-hours that are used up in this month, each for its own scope."""
        for span in spans if hourly else ():
            key = SlotUse(span.user, span.project, model.pool_key(span.cluster, span.pool))
            self._used[span.run_id, span.attempt] = key, span.slot_s(month_at, now) / HOUR_S
        totals: dict[SlotUse, float] = {}
        for key, slot_hours in self._used.values():
            totals[key] = totals.get(key, 0.0) + slot_hours
        used: dict[tuple[Cap, model.LimitScope], float] = {}
        for key, slot_hours in totals.items():
            for pair in model.matching(hourly, key):
                used[pair] = used.get(pair, 0.0) + slot_hours
        return [cap.on(scope, spent) for (cap, scope), spent in used.items() if spent >= cap.most]

    def _charge(self, spans: _Spans, accounts: Accounts, pools: Iterable[Pool], now: float) -> None:
        """Store the charges that are due; the accounts are those after all use until now."""
        charged = self._store.limits.charged([attempt_id(each.run_id, each.attempt) for each in spans])
        found = list(charges(spans, accounts, charged, pools, now))
        totals = {name: sum(each.amount for each, _ in found if each.account == name) for name in accounts}
        self.accounts = tuple(
            replace(each, balance=each.balance + totals[name]) for name, each in accounts.items()
        )
        crossed = any(is_due_to_warn(each) or each.balance <= 0.0 for each in self.accounts)
        every = crossed or now >= self._charged_at + CHARGE_PERIOD_S
        self._charged_at = now if every else self._charged_at
        self._store.limits.add([entry for entry, ended in found if ended or every])


def use_of(run: Run, attempt: Attempt) -> SlotUse:
    """The slots that an attempt holds, as limits count them."""
    allocation = attempt.current_allocation
    pool = model.pool_key(allocation.cluster, allocation.pool)
    return SlotUse(run.user, run.project, pool, allocation.slots)
