"""Finds the run that a user means: by id, name (the newest), unique prefix of its id, or `@last`.

A name, or an array's id, means all members of the newest array of that name; `NAME[3]`, or a run's own id,
means one member. Called by `service` for every command that takes a run. `awaited_runs` finds those that a
run waits for, `array_status` the progress of all members of an array.
"""

import difflib
from collections.abc import Sequence

from tarmac import api
from tarmac.control.permissions import may_see
from tarmac.model.actor import Actor
from tarmac.model.array import AwaitedRun, Condition, Dependency, array_id_of, split_member
from tarmac.model.changes import NewRun
from tarmac.model.codec import common, replace
from tarmac.model.errors import InvalidInput, NotFound, Problem, Refused
from tarmac.model.ports import Ids, Store
from tarmac.model.run import Run
from tarmac.model.summary import RunQuery

LAST = "@last"
"""The newest run of the actor (of any user, if they have none), whether it has ended or not."""

MOST_LOADED = 10_000


def find_run(store: Store, actor: Actor, reference: str) -> Run:
    """Find the run, first among the actor's own.

    Raises NotFound with the nearest names, and Refused if a prefix means several runs.
    """
    if reference == LAST:
        everyone = RunQuery(sight=actor.sees, limit=1)
        newest = store.runs(RunQuery(user=actor.user, limit=1)) or store.runs(everyone)
        if not newest:
            raise NotFound("there is no run yet", hint="tarmac run -- echo hello makes one")
        reference = newest[0].id
    exact = store.run(reference)
    if exact is not None and may_see(actor, exact):
        return exact
    found = store.find_runs(reference, user=actor.user, sight=actor.sees)
    found = found or _in_array(store, actor, reference)
    if not found:
        raise NotFound(f"there is no run {reference!r}", hint=_nearest(store, actor, reference))
    if len(found) > 1 and found[0].name != reference:
        listed = ", ".join(f"{run.id} ({run.name})" for run in found)
        raise Refused(f"{reference!r} means several runs: {listed}", hint="give more of the id")
    return found[0]


def _in_array(store: Store, actor: Actor, reference: str) -> list[Run]:
    """The run that `NAME[3]` means; for an array's own id, its newest member."""
    member = split_member(reference)
    if member is None:
        query = RunQuery(array_id=reference, sight=actor.sees, limit=1)
    else:
        name, index = member
        named = store.find_runs(name, user=actor.user, sight=actor.sees)
        array_id = named[0].array_id if named else name
        if array_id is None:
            return []
        query = RunQuery(array_id=array_id, array_index=index, sight=actor.sees, limit=1)
    return list(store.load_runs([each.id for each in store.runs(query)]).values())


def _nearest(store: Store, actor: Actor, reference: str) -> str:
    if store.experiments.find(reference, user=actor.user, sight=actor.sees):
        return f"it is an experiment: tarmac experiment show {reference}"
    recent = store.runs(RunQuery(sight=actor.sees, limit=200))
    names = dict.fromkeys([run.name for run in recent] + [run.id for run in recent])
    close = difflib.get_close_matches(reference, names, n=3)
    if close:
        return "did you mean " + " or ".join(close) + "?"
    return "tarmac ls --all lists them" if recent else "no run was submitted yet"


def awaited_runs(store: Store, actor: Actor, after: Sequence[Dependency]) -> tuple[AwaitedRun, ...]:
    """The referenced runs, each once; raises InvalidInput with every reference that means no single run.

    A run that is named twice has to complete if either reference requires it.
    """
    found: dict[str, AwaitedRun] = {}
    problems: list[Problem] = []
    for dependency in after:
        try:
            run = find_run(store, actor, dependency.run)
        except (NotFound, Refused) as error:
            problems.append(Problem(message=f"after: {error.message}", hint=error.hint))
            continue
        identifier = str(run.array_id) if means_all(run, dependency.run) else run.id
        before = found.get(identifier)
        condition = dependency.condition
        if before is not None and before.condition is Condition.COMPLETED:
            condition = Condition.COMPLETED
        found[identifier] = AwaitedRun(run_id=identifier, name=run.name, condition=condition)
    if problems:
        raise InvalidInput(problems)
    return tuple(found.values())


def members_of(first: NewRun, ids: Ids, now: float) -> list[NewRun]:
    """A new run as the members of its array. Raises Refused for a rehearsal."""
    run, array = first.run, first.run.spec.array
    assert array is not None, "only an array has members"
    if run.spec.rehearsal is not None:
        raise Refused(
            f"{run.name} is an array, and a rehearsal makes a cluster for one run",
            hint="rehearse one member: --set array=0",
        )
    array_id, key, found = array_id_of(run.id), run.idempotency_key, []
    for place, index in enumerate(array.values()):
        member_id = run.id if place == 0 else ids.run_id(now)
        spec = run.spec
        if spec.has_own_cluster and place > 0:
            spec = replace(spec, target=spec.target_of(member_id))
        member = replace(
            run,
            id=member_id,
            spec=spec,
            array_id=array_id,
            array_index=index,
            idempotency_key=None if key is None else f"{key}[{array}][{index}]",
        )
        found.append(NewRun(run=member, events=first.events))
    return found


def means_all(run: Run, reference: str) -> bool:
    """Whether a reference that led to this run means every member of its array."""
    return run.array_id is not None and reference in (run.name, run.array_id)


def live_members(store: Store, run: Run) -> Sequence[Run]:
    """The members of the run's array that have not ended, smallest index first."""
    assert run.array_id is not None, "it is a member of an array"
    found = store.runs(RunQuery(array_id=run.array_id, limit=MOST_LOADED))
    loaded = store.load_runs([each.id for each in found if each.ended_at is None])
    return sorted(loaded.values(), key=lambda each: each.array_index or 0)


def array_status(store: Store, run: Run) -> api.Array:
    """The progress of a run's array; raises NotFound if the run belongs to no array."""
    array = run.spec.array
    if run.array_id is None or array is None:
        raise NotFound(f"{run.name} ({run.id}) is a single run, no member of an array")
    counts: dict[str, int] = {}
    for (state, outcome), count in sorted(store.array_counts(run.array_id).items()):
        word = str(outcome or state)
        counts[word] = counts.get(word, 0) + count
    return api.Array(
        id=run.array_id,
        **common(api.Array, run, but=("id",)),
        indices=array.indices,
        at_most=array.at_most,
        total=sum(counts.values()),
        counts=counts,
    )
