"""The queue as users see and change it: `tarmac queue`, its `set` and its `move`. Called by `service`, and
by a loop.

A list of changes is checked as a whole, as if applied one after another; then all changes are applied in one
transaction, or none.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from tarmac import api, sched
from tarmac.api.cluster_operations import QueueChange
from tarmac.control.admission import refusal_reasons
from tarmac.control.decisions.steps import caused_by
from tarmac.control.lookup import find_run
from tarmac.control.permissions import Action, check
from tarmac.control.queue.delegated_queue import delegated_pages
from tarmac.control.queue.lines import MOST_FOLDED, Arrays, Line, Member, lines_of, page_of
from tarmac.control.queue.reordering import Draft, PoolKey
from tarmac.control.state.control_state import ControlState
from tarmac.control.state.event_bus import Wakeup
from tarmac.control.state.facts import candidate_of
from tarmac.model.actor import Actor
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, NotFound, Problem, Refused, Unavailable
from tarmac.model.lifecycle import RunState
from tarmac.model.progress import CauseCode
from tarmac.model.run import Run

CHANGE_TRIES = 20
"""The number of attempts to decide a list of changes if a run in it changes meanwhile."""


def queue(
    control: ControlState,
    part: sched.Part = sched.WHOLE,
    *,
    cluster: str | None = None,
    pool: str | None = None,
    by_array: bool = False,
) -> list[api.QueuePool]:
    """This part of the queue of each pool (of this name, of this cluster), in scheduling order.

    `by_array`: one line for all members of an array.
    """
    now = control.clock.now()
    read = part if part.limit is None or not by_array else dataclasses.replace(part, limit=MOST_FOLDED)

    def is_selected(key: PoolKey) -> bool:
        return cluster in (None, key[0]) and pool in (None, key[1])

    scope = partial(_scope, control, now)
    found = control.scheduler_state.ask(lambda ledger: sched.pages(ledger, now, read, pools=is_selected))
    with control.lock:
        known = control.run_cache()
        arrays = Arrays.of(known) if by_array else None
        pages = [(page, *_lines(page, known.runs, part, by_array=by_array)) for page in found]
    waiting = [next(filter(_waits, line), None) for _, lines, _ in pages for line in lines]
    places = {member.run.id: member.place for member in waiting if member is not None}
    near = [run_id for run_id, place in places.items() if place < sched.MOST_ESTIMATED]
    depth = max(places.values(), default=-1) + 1
    expected = control.estimator.first_estimates(near, scope, depth, now) if near else {}
    estimate = partial(_estimate, expected)
    placed = [
        page_of(page.rules, page.total, lines, estimate, following=following, arrays=arrays)
        for page, lines, following in pages
    ]
    return [*placed, *delegated_pages(control, part, is_selected, arrays)]


def _lines(
    page: sched.PoolPage, runs: Mapping[str, Run], part: sched.Part, *, by_array: bool
) -> tuple[list[Line], int | None]:
    """The lines of a page, and the place of the first run behind it."""
    members = (
        Member(place.place, run, place.acquired, place.needed)
        for place in page.places
        if (run := runs.get(place.run_id)) is not None
    )
    lines, following = lines_of(members, part.limit) if by_array else ([[each] for each in members], None)
    if following is None and page.more and not part.also:
        following = page.places[-1].place + 1
    return lines, following


def estimate_pass(control: ControlState) -> None:
    """Make the estimates for which answers about the queue could not wait."""
    now = control.clock.now()
    control.estimator.renew(partial(_scope, control, now), now)


def _scope(control: ControlState, now: float, most: int) -> sched.Scope:
    """The facts on which the starts of the first `most` runs of each queue depend."""
    return control.scheduler_state.ask(lambda ledger: sched.scope_of_first(ledger, now, most))


def reorder(
    control: ControlState, actor: Actor, changes: Sequence[QueueChange], names: Mapping[str, str]
) -> list[Run]:
    """Apply all changes, or none; returns the named runs in their new state.

    `ahead_of` and `behind_of` may name runs of other users; the actor must have permission for the changed
    runs. Raises InvalidInput with every problem once, each with its change. `names` has names for messages,
    by id.
    """
    for _ in range(CHANGE_TRIES):
        named = _Named(control, actor, names)
        draft = _draft(control, changes, named)
        problems = [problem for change in changes for problem in _try(draft, change, named)]
        if problems:
            raise InvalidInput(list(dict.fromkeys(problems)))
        for change in changes:
            check(actor, Action.CONTROL, owner=named.run(change.reference).user)
        steps = [caused_by(actor, step) for step in draft.steps()]
        if all(control.commit(steps, whole=True)):
            control.event_bus.notify(Wakeup.SCHEDULE)
            after = {step.after.id: step.after for step in steps}
            runs = [named.run(change.reference) for change in changes]
            return list({run.id: after.get(run.id, run) for run in runs}.values())
    raise Unavailable("the queue changes too quickly", hint="try again")


class _Named:
    """The referenced runs, each looked up once in this server's state, and names for messages."""

    def __init__(self, control: ControlState, actor: Actor, names: Mapping[str, str]) -> None:
        self.names = names
        self._control = control
        self._actor = actor
        self._found: dict[str, Run | Problem] = {}

    def run(self, reference: str) -> Run:
        """The run; raises NotFound with the nearest name, or Refused if several are meant."""
        found = self._found.get(reference)
        if found is None:
            found = self._found[reference] = self._look_up(reference)
        if isinstance(found, Problem):
            raise NotFound(found.message, hint=found.hint)
        return found

    def _look_up(self, reference: str) -> Run | Problem:
        try:
            run = find_run(self._control.store, self._actor, reference)
        except (NotFound, Refused) as error:
            return Problem(message=error.message, hint=error.hint)
        with self._control.lock:
            return self._control.run_cache().runs.get(run.id, run)


def _try(draft: Draft, change: QueueChange, named: _Named) -> Iterator[Problem]:
    """Make one change on the draft; a problem begins with the text of the change."""
    operations = list(_operations(change, named.names))
    name = named.names.get(change.reference, change.reference)
    if len(operations) != 1:
        yield Problem(message=f"{name}: one change at a time, not {len(operations)}")
        return
    words, operation = operations[0]
    try:
        operation(draft, named.run(change.reference), named)
    except (NotFound, Refused) as error:
        yield Problem(message=f"{name}.{words}: {error.message}", hint=error.hint)


Operation = Callable[[Draft, Run, _Named], None]


def _operations(change: QueueChange, names: Mapping[str, str]) -> Iterator[tuple[str, Operation]]:
    """The operations of the change, each with its text in the batch form."""
    if (priority := change.priority) is not None:
        yield f"priority={priority}", lambda draft, run, _: draft.set_priority(run, priority)
    if (weight := change.weight) is not None:
        yield f"weight={weight:g}", lambda draft, run, _: draft.set_weight(run, weight)
    if (pool := change.pool) is not None:
        yield f"pool={pool}", lambda draft, run, _: draft.set_pool(run, pool)
    if (ahead_of := change.ahead_of) is not None:
        yield (
            f"ahead-of={names.get(ahead_of, ahead_of)}",
            lambda draft, run, named: draft.move(run, named.run(ahead_of), behind=False),
        )
    if (behind_of := change.behind_of) is not None:
        yield (
            f"behind-of={names.get(behind_of, behind_of)}",
            lambda draft, run, named: draft.move(run, named.run(behind_of), behind=True),
        )
    if change.top:
        yield "top", lambda draft, run, _: draft.top(run)


def _draft(control: ControlState, changes: Iterable[QueueChange], named: _Named) -> Draft:
    """The current queues: every run in one, including the named runs that wait elsewhere."""
    now = control.clock.now()
    pools, nodes = control.offer()
    found = control.scheduler_state.ask(lambda ledger: sched.pages(ledger, now))
    with control.lock:
        runs = dict(control.run_cache().runs)
    homes = _homes(found)
    elsewhere = [run for run in _mentioned(changes, named) if run.id in runs and run.id not in homes]
    idle = sched.Snapshot(
        pools=pools, nodes=nodes, queue=tuple(candidate_of(run) for run in elsewhere), holdings=()
    )
    homes |= _homes(sched.pages(sched.Ledger(idle), now))
    positions = {run_id: (runs[run_id], pool) for run_id, pool in homes.items() if run_id in runs}

    def misfit(run: Run, pool: PoolKey) -> str | None:
        target = replace(run.spec.target, cluster=pool[0], pool=pool[1])
        candidate = replace(candidate_of(run), target=target, pool=None)
        answer = sched.explain(replace(idle, queue=(candidate,)), run.id, now)
        if isinstance(answer, sched.Refusal) and answer.code is CauseCode.NEVER_FITS:
            return "; ".join(refusal_reasons(answer))
        return None

    # Read the clock again: the events of these runs may be later than the first reading.
    return Draft(positions, {rules.key: rules for rules in pools}, misfit, named.names, control.clock.now())


def _homes(pages: Iterable[sched.PoolPage]) -> dict[str, PoolKey]:
    """The pool in whose queue each run is."""
    return {place.run_id: page.rules.key for page in pages for place in page.places}


def _mentioned(changes: Iterable[QueueChange], named: _Named) -> Iterator[Run]:
    for change in changes:
        for reference in (change.reference, change.ahead_of, change.behind_of):
            if reference is not None:
                try:
                    yield named.run(reference)
                except NotFound:  # reported when the change is tried
                    continue


def _waits(member: Member) -> bool:
    return member.run.state is RunState.QUEUED


def _estimate(expected: Mapping[str, sched.Estimate], member: Member) -> api.Estimate | None:
    if not _waits(member):
        return None
    found = expected.get(member.run.id, _TOO_FAR)
    return api.Estimate(start_at=found.start_at, latest_at=found.latest_at, basis=found.basis)


_TOO_FAR = sched.too_far("")
