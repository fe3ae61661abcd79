"""Limits and credits as commands and questions, and the refusal of submissions over a limit.

Used by `service`, `admission` and the schedule loop.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any

from tarmac.api.account_operations import GrantBody, LedgerQuery, LimitBody
from tarmac.api.operation import LARGEST
from tarmac.control.permissions import Action, check, may_see_credits
from tarmac.control.state.control_state import ControlState
from tarmac.control.state.event_bus import Wakeup
from tarmac.model.actor import Actor, ActorRole
from tarmac.model.codec import common, replace
from tarmac.model.errors import InvalidInput, NotFound, Refused
from tarmac.model.lifecycle import RunState
from tarmac.model.people import limits as model
from tarmac.model.people.limits import CreditAccount, CreditEntry, Limit, LimitKind, LimitScope, SlotUse
from tarmac.model.run import Run
from tarmac.sched import LimitBook

WAITING = frozenset({RunState.PENDING, RunState.QUEUED, RunState.SUBMITTED})
"""States in which a run counts as a waiting one."""


class LimitService:
    """The commands and questions about limits and credits."""

    def __init__(self, control: ControlState) -> None:
        self._control = control

    @property
    def _store(self) -> model.Limits:
        return self._control.store.limits

    def limits(self, actor: Actor) -> list[Limit]:
        """All limits, by scope."""
        check(actor, Action.READ)
        return sorted(self._store.limits(), key=lambda each: [part or "" for part in each.parts])

    def set(self, actor: Actor, change: LimitBody) -> Limit:
        """Change the limits of a scope; returns those that it has now."""
        check(actor, Action.MANAGE)
        scope = LimitScope(**common(LimitScope, change))
        if not any(scope.parts):
            hint = "give --user, --project or --pool; '*' is each of them"
            raise InvalidInput("a limit is for a user, a project or a pool", hint=hint)
        if scope.pool is not None and scope.pool != model.EVERY and "/" not in scope.pool:
            scope = replace(scope, pool=model.pool_key(self._control.server, scope.pool))
        known = next((each for each in self._store.limits() if each.parts == scope.parts), None)
        if known is None and change.unset:
            raise NotFound(f"{scope} has no limits", hint="tarmac limits ls lists them")
        removed = dict.fromkeys(name for name in change.unset if name is not LimitKind.CREDITS)
        given: Any = removed | change.given
        limit = replace(known or Limit(**common(LimitScope, scope)), **given)
        self._store.put(limit)
        self._refresh()
        return limit

    def accounts(self, actor: Actor) -> list[CreditAccount]:
        """The accounts with a grant, less all use until now: of the actor and their projects, or all."""
        check(actor, Action.READ)
        refresh_limits(self._control)
        return [each for each in self._control.limits.accounts if may_see_credits(actor, each.account)]

    def grant(self, actor: Actor, body: GrantBody) -> CreditAccount:
        """Add a grant or a correction to an account; a second one with the same key changes nothing."""
        check(actor, Action.MANAGE)
        known = any(each.account == body.account for each in self._store.accounts())
        if not known if body.correction else body.credits <= 0.0:
            hint = "a grant is more than 0 credits; a correction, of an account with a grant, may be negative"
            raise InvalidInput(f"{body.credits:g} credits cannot be added to {body.account}", hint=hint)
        self._refresh()  # charge the use until now first
        kind = model.EntryKind.CORRECTION if body.correction else model.EntryKind.GRANT
        now, key = self._control.clock.now(), f"{kind}/{body.key}"
        entry = CreditEntry(account=body.account, kind=kind, at=now, amount=body.credits, key=key)
        self._store.add([replace(entry, actor=actor.user, note=body.note)])
        self._refresh()
        return next(each for each in self.accounts(actor) if each.account == body.account)

    def ledger(self, actor: Actor, query: LedgerQuery) -> list[CreditEntry]:
        """A page of the ledger, the newest entries first: of the same accounts as `accounts`."""
        check(actor, Action.READ)
        accounts: list[str | None] = [query.account]
        if ActorRole.ADMIN not in actor.roles:
            known = [each.account for each in self._store.accounts() if may_see_credits(actor, each.account)]
            accounts = [each for each in known if query.account in (None, each)]
        before = query.before or LARGEST
        pages = [self._store.entries(each, before=before, limit=query.limit) for each in accounts]
        return sorted(chain(*pages), key=lambda entry: entry.id, reverse=True)[: query.limit]

    def _refresh(self) -> None:
        refresh_limits(self._control)
        for wakeup in (Wakeup.LIMITS, Wakeup.SCHEDULE):
            self._control.event_bus.notify(wakeup)


def refresh_limits(control: ControlState) -> list[CreditAccount]:
    """Read limits, usage and accounts now; returns the accounts whose owners have to be warned."""
    with control.lock:
        attempts, pools = list(control.run_cache().attempts.values()), control.offer()[0]
    return control.limits.refresh(attempts, pools, control.clock.now())


def limit_book(control: ControlState) -> LimitBook | None:
    """The caps and the slots of all live attempts; None without caps."""
    if not control.limits.known:
        refresh_limits(control)
    with control.lock:
        return control.limits.book(control.run_cache())


def request_of(control: ControlState, run: Run) -> SlotUse:
    """The slots that a run requests, in the pool that it names, if any."""
    target, pool = run.spec.target, run.place.pool or run.spec.target.pool
    key = model.pool_key(target.cluster or control.server, pool) if pool is not None else None
    return SlotUse(run.user, run.project, key, run.spec.slots)


def refuse_over_limits(control: ControlState, run: Run) -> None:
    """Refuse a run that is larger or longer than its user, its project or the pool that it names allows."""
    if not control.limits.known:
        refresh_limits(control)
    caps = model.caps_of(control.limits.limits, LimitKind.SLOTS, LimitKind.LARGEST, LimitKind.LONGEST)
    book, use = LimitBook(caps), request_of(control, run)
    if caps and (exceeded := book.exceeded(use, run.spec.time_limit_s)) is not None:
        raise Refused(f"{run.name} is refused: {exceeded.text}", hint=exceeded.raised_by)


def refuse_too_many(control: ControlState, new: Sequence[Run]) -> None:
    """Refuse new runs with which a user, a project or a pool would have more waiting runs than allowed."""
    caps = model.caps_of(control.limits.limits, LimitKind.QUEUED)
    if not caps:
        return
    live = control.live_runs()
    keys = {(run.user, run.idempotency_key) for run in live if run.idempotency_key is not None}
    fresh = [run for run in new if (run.user, run.idempotency_key) not in keys]
    scopes = (model.matching(caps, request_of(control, run)) for run in live if run.state in WAITING)
    waiting = Counter(scope for found in scopes for _, scope in found)
    for run in fresh:
        for cap, scope in model.matching(caps, request_of(control, run)):
            if waiting[scope] >= cap.most:
                exceeded = cap.on(scope, waiting[scope])
                raise Refused(f"{run.name} is refused: {exceeded.text}", hint=exceeded.raised_by)
            waiting[scope] += 1
