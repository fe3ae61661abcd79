"""What every store guarantees of runs: accepting them once, finding them, listing them."""

from __future__ import annotations

import pytest

from histories import new_run, placed, step
from tarmac.model.actor import Sight
from tarmac.model.array import AwaitedRun, Condition
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, Refused
from tarmac.model.lifecycle import IllegalStep, Mode, RunEvent, RunState
from tarmac.model.ports import Store
from tarmac.model.progress import Cause, CauseCode, Outcome
from tarmac.model.resources import Resources
from tarmac.model.run import QueuePosition
from tarmac.model.spec import (
    Command,
    Conventions,
    Environment,
    LocalDirectory,
    Process,
    Rehearsal,
    Role,
    Target,
)
from tarmac.model.summary import RunQuery

E = RunEvent


def ids(store: Store, **query: object) -> list[str]:
    return [summary.id for summary in store.runs(RunQuery(**query))]  # type: ignore[arg-type]


# --- accepting --------------------------------------------------------------------------------------


def test_an_accepted_run_is_read_back_as_it_was(store: Store) -> None:
    roles = (
        Role(
            name="trainer",
            processes=(Process(command=Command(script="echo 'a'\n\x00 ütf"), resources=Resources(slots=2)),),
            replicas=3,
        ),
    )
    new = new_run(
        "r1",
        key="k1",
        name="müsli",
        roles=roles,
        source="# \U0001f680 \x00 \ud800",
        code=LocalDirectory(path="/code"),
        target=Target(cluster="site", hostnames=("a", "b")),
        rehearsal=Rehearsal(nodes=2, slots_per_node=1),
        time_limit_s=60.0,
        environment=Environment(variables={"A": "1"}),
        labels={"team": "vision"},
    )
    awaited = AwaitedRun(run_id="r0", name="prep", condition=Condition.ENDED)
    new = replace(new, run=replace(new.run, dependencies=(awaited,)))
    assert store.create_runs([new]) == [new.run]
    assert store.run("r1") == new.run
    assert store.load_runs(["r1", "none"]) == {"r1": new.run}
    assert list(store.live_runs()) == [new.run]


def test_runs_are_returned_in_the_order_of_the_request(store: Store) -> None:
    new = [new_run(f"r{number}") for number in (3, 1, 2)]
    assert [run.id for run in store.create_runs(new)] == ["r3", "r1", "r2"]
    assert [run.id for run in store.live_runs()] == ["r1", "r2", "r3"]


def test_nothing_to_accept_is_no_write(store: Store) -> None:
    assert store.create_runs([]) == []
    assert store.last_event_id() == 0


def test_the_same_key_gives_the_same_run(store: Store) -> None:
    (first,) = store.create_runs([new_run("r1", key="k")])
    (step_taken,) = store.apply([step(first, E.PAUSE_REQUESTED)])
    assert step_taken
    (again,) = store.create_runs([new_run("r2", key="k")])
    assert (again.id, again.state) == ("r1", RunState.PAUSED), "the run as it is now"
    assert store.run("r2") is None
    assert len(store.events("r1")) == 3, "nothing is added for it"


def test_keys_belong_to_users(store: Store) -> None:
    store.create_runs([new_run("r1", key="k", user="ada")])
    (other,) = store.create_runs([new_run("r2", key="k", user="bob")])
    assert other.id == "r2"


def test_a_batch_may_mix_known_and_new_keys_and_repeat_one(store: Store) -> None:
    store.create_runs([new_run("r1", key="k1")])
    batch = [new_run("r2", key="k1"), new_run("r3", key="k3"), new_run("r4", key="k3"), new_run("r5")]
    assert [run.id for run in store.create_runs(batch)] == ["r1", "r3", "r3", "r5"]
    assert ids(store) == ["r5", "r3", "r1"]


def test_more_keys_than_one_statement_takes(store: Store) -> None:
    batch = [new_run(f"r{number:04}", key=f"k{number}") for number in range(1201)]
    store.create_runs(batch)
    again = [new_run(f"s{number:04}", key=f"k{number}") for number in range(1201)]
    assert [run.id for run in store.create_runs(again)] == [item.run.id for item in batch]
    assert len(store.load_runs([item.run.id for item in batch])) == 1201


def test_an_id_is_given_once(store: Store) -> None:
    store.create_runs([new_run("r1")])
    with pytest.raises(Refused):
        store.create_runs([new_run("r2"), new_run("r1", name="other")])
    assert ids(store) == ["r1"], "all or none"
    with pytest.raises(Refused):
        store.create_runs([new_run("r3"), new_run("r3")])
    assert ids(store) == ["r1"]


def test_first_events_must_lead_to_the_state(store: Store) -> None:
    wrong = new_run("r1", events=())
    lying = new_run("r1").run
    with pytest.raises(IllegalStep):
        store.create_runs([type(wrong)(run=lying, events=())])
    with pytest.raises(IllegalStep):
        store.create_runs([type(wrong)(run=lying, events=(E.STARTED,))])
    assert store.run("r1") is None


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "a\0b"},
        {"project": "\ud800"},
        {"labels": {"a": "\0"}},
        {"labels": {"\udfff": "a"}},
        {"key": "\0"},
        {"user": "\0"},
        {"priority": 2**63},
        {"target": Target(pool="\0")},
    ],
    ids=str,
)
def test_what_some_database_cannot_hold_is_refused(store: Store, fields: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        store.create_runs([new_run("r0"), new_run("r1", **fields)])  # type: ignore[arg-type]
    assert ids(store) == []


# --- finding ----------------------------------------------------------------------------------------


def test_a_reference_is_an_id_else_a_name_else_a_prefix(store: Store) -> None:
    store.create_runs(
        [
            new_run("aa1", name="digits"),
            new_run("aa2", name="digits"),
            new_run("ab1", name="aa1"),
            new_run("b_1", name="ab"),
            new_run("bx1", name="other"),
        ]
    )

    def found(reference: str, limit: int = 10) -> list[str]:
        return [run.id for run in store.find_runs(reference, limit=limit)]

    assert found("aa1") == ["aa1"], "an id wins over a name"
    assert found("digits") == ["aa2", "aa1"], "newest first"
    assert found("ab") == ["b_1"], "a name wins over a prefix"
    assert found("aa") == ["aa2", "aa1"]
    assert found("a", limit=2) == ["ab1", "aa2"]
    assert found("b_") == ["b_1"], "no character stands for another"
    store.create_runs([new_run("c_1", name="digits", user="bob"), new_run("c_2", name="digits", user="ada")])
    assert [run.id for run in store.find_runs("digits", user="bob")] == ["c_1"], "their own first"
    assert [run.id for run in store.find_runs("digits", user="eve", limit=2)] == ["c_2", "c_1"]
    assert found("A") == [], "case counts"
    assert found("digit") == []
    assert found("") == []
    assert found("a\0") == []
    assert found("\ud800") == []


def test_unknown_runs_have_nothing(store: Store) -> None:
    assert store.run("r1") is None
    assert store.run("\0") is None
    assert store.load_runs([]) == {}
    assert store.attempts("r1") == []
    assert store.events("r1") == []
    assert list(store.live_runs()) == []
    assert store.live_attempts() == []


# --- listing ----------------------------------------------------------------------------------------


def test_a_summary_says_what_the_run_says(store: Store) -> None:
    role = Role(processes=(Process(command=Command(argv=("a",))),), replicas=None, slots=4)
    new = new_run(
        "r1", name="n", project="p", user="u", roles=(role,), priority=-3, target=Target(cluster="c")
    )
    (run,) = store.create_runs([new])
    (summary,) = store.runs(RunQuery())
    assert (summary.id, summary.name, summary.project, summary.user) == ("r1", "n", "p", "u")
    assert (summary.priority, summary.slots, summary.cluster, summary.dialect) == (-3, 4, "c", "native")
    assert (summary.state, summary.outcome, summary.attempt) == (RunState.QUEUED, None, 0)
    assert (summary.created_at, summary.started_at, summary.ended_at, summary.message) == (
        100.0,
        None,
        None,
        None,
    )

    start = placed(run)
    cause = Cause(code=CauseCode.EXIT_CODE, message="worker \0 exited \udc80", exit_code=7)
    end = step(start.after, E.FINISHED, at=120.0, outcome=Outcome.FAILED, cause=cause, started_at=110.0)
    assert store.apply([start, end]) == [True, True]
    (summary,) = store.runs(RunQuery())
    assert (summary.state, summary.outcome, summary.attempt) == (RunState.ENDED, Outcome.FAILED, 1)
    assert (summary.started_at, summary.ended_at) == (110.0, 120.0)
    assert summary.cluster == "local", "where it ran, once it ran"
    assert summary.message is not None
    assert summary.message.startswith("worker ")
    assert summary.cause_code is CauseCode.EXIT_CODE
    stored = store.run("r1")
    assert stored is not None
    assert stored.cause == cause, "the cause keeps what a worker printed, whatever it is"


def test_a_summary_says_what_lists_of_other_systems_tell(store: Store) -> None:
    role = Role(processes=(Process(command=Command(argv=("a",))),), replicas=None, slots=4, slot_type="h100")
    foreign = {
        "conventions": Conventions(system="mcli"),
        "environment": Environment(image="mosaicml/pytorch"),
        "mode": Mode.CYCLE,
        "max_rapid_cycles": 5,
    }
    store.create_runs([new_run("r1"), new_run("r2", roles=(role,), **foreign)])
    theirs, ours = store.runs(RunQuery())
    assert (theirs.system, theirs.image, theirs.slot_type) == ("mcli", "mosaicml/pytorch", "h100")
    assert (theirs.turns, theirs.max_turns, theirs.preemptions, theirs.cause_code) == (0, 5, 0, None)
    assert (ours.system, ours.image, ours.slot_type, ours.max_turns) == ("native", None, None, None)


def test_a_summary_says_where_a_run_stands_now(store: Store) -> None:
    (run,) = store.create_runs([new_run("r1", mode=Mode.CYCLE, target=Target(pool="p"), priority=1)])

    def shown() -> tuple[object, ...]:
        (summary,) = store.runs(RunQuery())
        return summary.mode, summary.pool, summary.priority

    assert shown() == (Mode.CYCLE, "p", 1)
    moved = step(run, E.REORDERED, queue_position=QueuePosition(priority=9, weight=1.0, pool="q"))
    assert store.apply([moved]) == [True]
    assert shown() == (Mode.CYCLE, "q", 9)
    assert store.apply([placed(moved.after)]) == [True]
    assert shown() == (Mode.CYCLE, "default", 9), "where it runs, once it runs"


def test_lists_are_newest_first_and_paged(store: Store) -> None:
    store.create_runs([new_run(f"r{number}") for number in range(5)])
    assert ids(store, limit=2) == ["r4", "r3"]
    assert ids(store, limit=2, before_id="r3") == ["r2", "r1"]
    assert ids(store, limit=2, before_id="r1") == ["r0"]


def test_lists_are_filtered(store: Store) -> None:
    store.create_runs(
        [
            new_run("r1", user="ada", project="p", name="a", labels={"team": "x", "size": "s"}),
            new_run("r2", user="bob", project="p", name="b", labels={"team": "x"}),
            new_run("r3", user="ada", project="q", name="a", labels={"team": "y"}, events=()),
        ]
    )
    assert ids(store, user="ada") == ["r3", "r1"]
    assert ids(store, project="p") == ["r2", "r1"]
    assert ids(store, name="a") == ["r3", "r1"]
    assert ids(store, states=frozenset({RunState.QUEUED})) == ["r2", "r1"]
    assert ids(store, states=frozenset({RunState.QUEUED, RunState.PENDING})) == ["r3", "r2", "r1"]
    assert ids(store, labels={"team": "x"}) == ["r2", "r1"]
    assert ids(store, labels={"team": "x", "size": "s"}) == ["r1"]
    assert ids(store, labels={"team": "x", "size": "l"}) == []
    assert ids(store, user="ada", project="p", name="a", states=frozenset({RunState.QUEUED})) == ["r1"]
    assert ids(store, user="nobody") == []


@pytest.mark.parametrize("users", [None, frozenset(), frozenset({"bob", "eve"})])
@pytest.mark.parametrize("closed", [frozenset(), frozenset({"q"})])
@pytest.mark.parametrize("projects", [frozenset(), frozenset({"p"}), frozenset({"p", "r"})])
def test_lists_and_references_have_what_a_sight_covers(
    store: Store, users: frozenset[str] | None, closed: frozenset[str], projects: frozenset[str]
) -> None:
    """N15."""
    places = [(user, project) for user in ("ada", "bob", "eve", "dan") for project in "pqr"]
    runs = [
        new_run(f"r{number:02}", name="same", user=user, project=project)
        for number, (user, project) in enumerate(places)
    ]
    store.create_runs(runs)
    sight = Sight(user="ada", users=users, projects=projects, closed=closed)
    covered = [each.run.id for each in runs if sight.covers(each.run.user, each.run.project)][::-1]
    assert ids(store, sight=sight) == covered
    assert {each.id for each in store.find_runs("r", sight=sight, limit=99)} == set(covered)
    assert [each.id for each in store.find_runs("same", sight=sight, limit=2)] == covered[:2]
    for each in runs:
        found = store.find_runs(each.run.id, sight=sight)
        assert [run.id for run in found] == [each.run.id] * (each.run.id in covered)


def test_lists_without_what_ended_long_ago(store: Store) -> None:
    runs = store.create_runs([new_run("r1"), new_run("r2"), new_run("r3")])
    store.apply([step(runs[0], E.STOP_REQUESTED, at=200.0), step(runs[1], E.STOP_REQUESTED, at=300.0)])
    assert ids(store, ended_after=200.0) == ["r3", "r2"]
    assert ids(store, ended_after=100.0) == ["r3", "r2", "r1"]


def test_lists_of_what_ended_long_ago(store: Store) -> None:
    runs = store.create_runs([new_run("r1"), new_run("r2"), new_run("r3")])
    store.apply([step(runs[0], E.STOP_REQUESTED, at=200.0), step(runs[1], E.STOP_REQUESTED, at=300.0)])
    assert ids(store, ended_before=300.0) == ["r1"]
    assert ids(store, ended_before=400.0) == ["r2", "r1"]


def test_runs_that_ended_are_forgotten_with_their_history_and_live_ones_stay(store: Store) -> None:
    runs = store.create_runs([new_run("r1", key="k"), new_run("r2"), new_run("r3")])
    store.apply([step(runs[0], E.STOP_REQUESTED)])
    before = store.last_event_id()
    assert store.remove_runs(["r1", "r2", "unknown", "\x00"]) == {"r1"}
    assert store.remove_runs(["r1"]) == frozenset()
    assert ids(store) == ["r3", "r2"]
    assert (store.run("r1"), store.events("r1"), store.attempts("r1")) == (None, [], [])
    assert {event.run_id for event in store.feed(after_id=0)} == {"r2", "r3"}
    [again] = store.create_runs([new_run("r4", key="k")])
    assert again.id == "r4", "the key is free again"
    assert {event.run_id for event in store.feed(after_id=before)} == {"r4"}


def test_ended_runs_are_not_live(store: Store) -> None:
    runs = store.create_runs([new_run("r1"), new_run("r2")])
    store.apply([step(runs[0], E.STOP_REQUESTED)])
    assert [run.id for run in store.live_runs()] == ["r2"]


def test_members_of_an_array_are_found_and_counted(store: Store) -> None:
    members = [
        replace(new, run=replace(new.run, array_id="a1", array_index=index))
        for index, new in enumerate([new_run("r1"), new_run("r2"), new_run("r3")])
    ]
    store.create_runs([*members, new_run("r4")])
    stopped = step(members[1].run, E.STOP_REQUESTED, outcome=Outcome.STOPPED, ended_at=9.0)
    assert store.apply([stopped]) == [True]
    assert ids(store, array_id="a1") == ["r3", "r2", "r1"]
    assert ids(store, array_id="a1", array_index=1) == ["r2"]
    assert ids(store, without=frozenset({"a1", "a2"})) == ["r4"]
    queries = (
        RunQuery(limit=1),
        RunQuery(array_id="a1"),
        RunQuery(without=frozenset({"a1"})),
        RunQuery(before_id="r3"),
        RunQuery(states=frozenset({RunState.ENDED}), ended_after=9.0),
        RunQuery(ended_after=9.0),
    )
    assert list(map(store.count_runs, queries)) == [4, 3, 1, 2, 0, 3]
    assert store.array_counts("a1") == {
        (members[0].run.state, None): 2,
        (RunState.ENDED, Outcome.STOPPED): 1,
    }
    assert store.array_counts("a2") == {}
