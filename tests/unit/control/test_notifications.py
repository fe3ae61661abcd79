"""Who is told of a run, when, and what becomes of messages that nobody takes (N18)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from actors import ADA, member
from sim_engine import Behaviour
from simulated import Crash, Simulation, nodes, spec
from tarmac.control.admission import Submission
from tarmac.control.decisions.notifications import FIRST_RETRY_S, GIVES_UP_S
from tarmac.control.decisions.steps import stop_run
from tarmac.control.reconcilers.notify import PAUSE_S, NotifyPass
from tarmac.model.array import RunArray, read_array
from tarmac.model.codec import replace
from tarmac.model.notification import (
    ENDED,
    Channel,
    Failure,
    Notification,
    Occasion,
    Receiver,
    Subscription,
)
from tarmac.model.run import Run
from tarmac.model.summary import RunQuery
from tarmac.node.attempt.document import Launch

RUNS_S = 600.0
HOOK = Receiver(channel=Channel.WEBHOOK, address="https://hooks.example.org/x")
MAIL = Receiver(channel=Channel.EMAIL, address="ada@example.org")


class Post:
    """A way out that keeps what it was given; `down` are receivers that take nothing."""

    def __init__(self) -> None:
        self.sent: list[list[Notification]] = []
        self.down: dict[Receiver, Failure] = {}

    def check(self, receiver: Receiver) -> None:
        """It allows every receiver."""

    def send(self, batches: Sequence[Sequence[Notification]]) -> Sequence[Failure | None]:
        failures = [self.down.get(batch[0].receiver) for batch in batches]
        self.sent += [list(batch) for batch, failed in zip(batches, failures, strict=True) if not failed]
        return failures

    def events(self) -> list[tuple[str, str]]:
        return [(message.about["name"], message.occasion) for batch in self.sent for message in batch]


def behaviour(launch: Launch) -> Behaviour:
    return Behaviour(duration_s=RUNS_S, exit_code=1 if launch.run_name == "broken" else 0)


@pytest.fixture
def simulation() -> Simulation:
    return Simulation(behaviour=behaviour, cluster=nodes(1, 4))


@pytest.fixture
def post() -> Post:
    return Post()


def submit(
    simulation: Simulation, name: str, *to: Subscription, slots: int = 1, array: RunArray | None = None
) -> Run:
    asked = replace(spec(name=name, slots=slots), notify=to, array=array)
    return simulation.server.plane.submit([Submission(spec=asked, actor=ADA)])[0].run


def go_on(simulation: Simulation, post: Post, seconds: float = 0.0) -> float | None:
    """Time passes, and everything that is due is done; when the pass wants to be called again."""
    simulation.clock.advance(seconds)
    for _ in range(4):
        simulation.turn_all()
    return NotifyPass(post)(simulation.server.plane.control)


def test_the_end_of_a_run_is_told_once(simulation: Simulation, post: Post) -> None:
    submit(simulation, "good", Subscription(receiver=HOOK))
    submit(simulation, "broken", Subscription(receiver=HOOK, on=(Occasion.FAILED,)))
    submit(simulation, "quiet", Subscription(receiver=HOOK, on=(Occasion.FAILED,)))
    go_on(simulation, post)
    assert post.events() == []
    go_on(simulation, post, RUNS_S)
    assert sorted(post.events()) == [("broken", "failed"), ("good", "completed")]
    about = next(batch[0].about for batch in post.sent if batch[0].about["name"] == "broken")
    assert (about["outcome"], about["cause"]["code"]) == ("failed", "exit_code")
    go_on(simulation, post, 3600)
    assert len(post.events()) == 2


def test_the_first_start_alone_is_told(simulation: Simulation, post: Post) -> None:
    run = submit(simulation, "run", Subscription(receiver=HOOK, on=(Occasion.STARTED,)))
    go_on(simulation, post)
    plane = simulation.server.plane
    plane.pause(ADA, run.id)
    go_on(simulation, post, 60)
    plane.resume(ADA, run.id)
    go_on(simulation, post, 60)
    assert plane.find(ADA, run.id).attempt == 2
    assert post.events() == [("run", "started")]


@pytest.mark.parametrize(
    ("broken", "told"),
    [(set(), ("completed", {"completed": 3})), ({1}, ("failed", {"completed": 2, "failed": 1}))],
)
def test_people_are_told_of_an_array_as_a_whole(broken: set[int], told: object, post: Post) -> None:
    """As Slurm's --mail-type has it; a program is told of each member."""

    def ends(launch: Launch) -> Behaviour:
        index = int(launch.nodes[0].workers[0].env.get("TARMAC_ARRAY_INDEX", 0))
        return Behaviour(duration_s=RUNS_S * (1 + index // 2), exit_code=int(index in broken))

    simulation = Simulation(behaviour=ends, cluster=nodes(1, 4))
    first = submit(simulation, "first", slots=4)
    on = (Occasion.STARTED, Occasion.WAITING, *ENDED)
    to = [Subscription(receiver=each, on=on, waiting_s=120.0) for each in (MAIL, HOOK)]
    submit(simulation, "sweep", *to, array=read_array("0-2"))
    go_on(simulation, post, 130)
    simulation.server.plane.stop(ADA, first.id)
    for _ in range(4):
        go_on(simulation, post, RUNS_S)
    by_mail = [message for batch in post.sent for message in batch if message.receiver == MAIL]
    assert [message.occasion for message in by_mail] == ["waiting", "started", told[0]]
    assert by_mail[-1].about["members"] == told[1]
    assert {message.about["name"] for message in by_mail} == {"sweep[0-2]"}
    by_hook = [message for batch in post.sent for message in batch if message.receiver == HOOK]
    assert len(by_hook) == 9
    assert {message.about["array_index"] for message in by_hook} == {0, 1, 2}


def test_an_array_of_which_a_member_did_not_end_after_all_is_told_once(
    simulation: Simulation, post: Post
) -> None:
    """Two members end in one commit, and a person has paused one of them since it was read."""
    submit(simulation, "first", slots=4)
    go_on(simulation, post)
    sweep = submit(simulation, "sweep", Subscription(receiver=MAIL), slots=4, array=read_array("0-1"))
    go_on(simulation, post)
    control, plane = simulation.server.plane.control, simulation.server.plane
    ids = [run.id for run in simulation.store.runs(RunQuery(array_id=sweep.array_id))]
    members = list(simulation.store.load_runs(ids).values())
    plane.pause(ADA, members[0].id)
    steps = [stop_run(member, None, simulation.clock.now()) for member in members]
    assert control.commit(steps) == [False, True]
    go_on(simulation, post, 60)
    assert post.events() == []
    plane.stop(ADA, members[0].id)
    go_on(simulation, post, 60)
    assert post.events() == [("sweep[0-1]", "stopped")]
    assert post.sent[0][0].about["members"] == {"stopped": 2}


def test_a_wait_is_told_once_it_is_long_and_once_for_each_stay(simulation: Simulation, post: Post) -> None:
    waits = Subscription(receiver=HOOK, on=(Occasion.WAITING,), waiting_s=120.0)
    first = submit(simulation, "first", slots=4)
    go_on(simulation, post)
    second = submit(simulation, "second", waits, slots=4)
    queued_at = simulation.clock.now()
    assert go_on(simulation, post, 100) == queued_at + 120
    assert post.events() == []
    for _ in range(3):
        go_on(simulation, post, 30)
    assert post.events() == [("second", "waiting")]
    assert post.sent[0][0].about["waiting_s"] == 120.0
    plane = simulation.server.plane
    plane.pause(ADA, second.id)
    plane.resume(ADA, second.id)
    go_on(simulation, post, 121)
    assert post.events() == [("second", "waiting")] * 2, "it waits anew"
    plane.stop(ADA, first.id)
    go_on(simulation, post, 60)
    go_on(simulation, post, 121)
    assert post.events() == [("second", "waiting")] * 2, "it waits no more"


def test_a_receiver_that_is_down_is_tried_for_a_day(simulation: Simulation, post: Post) -> None:
    run = submit(simulation, "good", Subscription(receiver=HOOK), Subscription(receiver=MAIL))
    post.down[HOOK] = Failure(reason="nobody is there")
    go_on(simulation, post)
    ended = go_on(simulation, post, RUNS_S)
    assert [batch[0].receiver for batch in post.sent] == [MAIL], "one that is down delays no other"
    assert ended == simulation.clock.now() + FIRST_RETRY_S
    store, tries = simulation.server.plane.control.store.notifications, 1
    while (next_at := store.next_due_at("local")) is not None:
        go_on(simulation, post, max(0.0, next_at - simulation.clock.now()))
        tries += 1
    message = next(each for each in store.of_run(run.id) if each.receiver == HOOK)
    assert (message.tries, message.sent_at, message.error) == (tries, None, "nobody is there")
    assert 20 < tries < 60
    assert GIVES_UP_S <= simulation.clock.now() - message.at < GIVES_UP_S + 3600


def test_a_refusal_for_good_is_not_tried_again(simulation: Simulation, post: Post) -> None:
    run = submit(simulation, "good", Subscription(receiver=HOOK))
    post.down[HOOK] = Failure(reason="answered 404", final=True)
    go_on(simulation, post)
    go_on(simulation, post, RUNS_S)
    [message] = simulation.server.plane.control.store.notifications.of_run(run.id)
    assert (message.tries, message.due_at, message.error) == (1, None, "answered 404")


def test_people_get_one_message_about_several_runs(simulation: Simulation, post: Post) -> None:
    """An array of a hundred runs makes no hundred mails; programs get each event."""
    for number in range(4):
        submit(simulation, f"run-{number}", Subscription(receiver=MAIL), Subscription(receiver=HOOK))
    go_on(simulation, post)
    go_on(simulation, post, RUNS_S)
    sizes = sorted((batch[0].receiver.channel.value, len(batch)) for batch in post.sent)
    assert sizes == [("email", 4)] + [("webhook", 1)] * 4


def test_people_are_told_at_most_once_a_minute(simulation: Simulation, post: Post) -> None:
    turn = NotifyPass(post)
    control = simulation.server.plane.control
    runs = [submit(simulation, f"run-{number}", Subscription(receiver=MAIL)) for number in range(3)]
    for run in runs:
        simulation.server.plane.stop(ADA, run.id)
        turn(control)
        simulation.clock.advance(1.0)
    assert [len(batch) for batch in post.sent] == [1]
    simulation.clock.advance(PAUSE_S)
    turn(control)
    assert [len(batch) for batch in post.sent] == [1, 2]


def test_subscriptions_to_every_run_are_the_servers(post: Post) -> None:
    always = Subscription(receiver=HOOK, on=(Occasion.FAILED,))
    simulation = Simulation(behaviour=behaviour, cluster=nodes(1, 4), notify_always=(always,))
    submit(simulation, "good")
    submit(simulation, "broken", Subscription(receiver=HOOK))
    go_on(simulation, post)
    go_on(simulation, post, RUNS_S)
    assert post.events() == [("broken", "failed")], "and nobody is told twice of one thing"


def submit_as(simulation: Simulation, user: str, name: str, *to: Subscription, slots: int = 1) -> Run:
    asked = replace(spec(name=name, slots=slots), notify=to)
    return simulation.server.plane.submit([Submission(spec=asked, actor=member(user))])[0].run


def test_n18_people_subscribe_to_all_of_their_own_runs_and_to_no_others(
    simulation: Simulation, post: Post
) -> None:
    messages = simulation.store.notifications
    messages.subscribe("bob", [Subscription(receiver=HOOK, on=(Occasion.FAILED, Occasion.COMPLETED))])
    go_on(simulation, post)
    submit_as(simulation, "bob", "good", Subscription(receiver=HOOK))
    submit_as(simulation, "bob", "broken")
    submit_as(simulation, "eve", "broken")
    go_on(simulation, post)
    simulation.start()
    go_on(simulation, post, RUNS_S)
    assert sorted(post.events()) == [("broken", "failed"), ("good", "completed")], "once, after a restart too"
    messages.subscribe("bob", [])
    go_on(simulation, post)
    submit_as(simulation, "bob", "broken")
    go_on(simulation, post)
    go_on(simulation, post, RUNS_S)
    assert len(post.events()) == 2


def test_n18_a_subscription_counts_for_runs_that_wait_already_once_for_each_wait(
    simulation: Simulation, post: Post
) -> None:
    submit_as(simulation, "bob", "first", slots=4)
    second = submit_as(simulation, "bob", "second", slots=4)
    submit_as(simulation, "eve", "third", slots=4)
    go_on(simulation, post, 100.0)
    messages = simulation.store.notifications
    on = Subscription(receiver=HOOK, on=(Occasion.WAITING,), waiting_s=200.0)
    messages.subscribe("bob", [on])
    go_on(simulation, post, 50.0)
    assert post.events() == []
    next_at = go_on(simulation, post)
    assert next_at == pytest.approx(simulation.clock.now() + 50.0, abs=5.0), "it wants to be called in time"
    go_on(simulation, post, 60.0)
    assert post.events() == [("second", "waiting")]
    messages.subscribe("bob", [])
    go_on(simulation, post, 60.0)
    messages.subscribe("bob", [replace(on, waiting_s=100.0)])
    simulation.start()
    go_on(simulation, post, 60.0)
    assert post.events() == [("second", "waiting")], "the same wait is reported once"
    plane = simulation.server.plane
    plane.pause(member("bob"), second.id)
    go_on(simulation, post)
    plane.resume(member("bob"), second.id)
    go_on(simulation, post, 110.0)
    assert post.events() == [("second", "waiting")] * 2, "another stay in the queue is another wait"


def test_n18_another_server_follows_a_subscription(simulation: Simulation, post: Post) -> None:
    """Each turn of the loop reads them."""
    submit_as(simulation, "bob", "broken")
    go_on(simulation, post)
    simulation.store.notifications.subscribe("bob", [Subscription(receiver=HOOK)])
    assert post.events() == []
    go_on(simulation, post)
    go_on(simulation, post, RUNS_S)
    assert post.events() == [("broken", "failed")]


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_crash_at_any_write_loses_no_message(simulation: Simulation, post: Post, where: str) -> None:
    """The message is in the transaction of the end itself; sent twice at most, under one id."""
    run = submit(simulation, "good", Subscription(receiver=HOOK, on=ENDED))
    go_on(simulation, post)
    simulation.clock.advance(RUNS_S)
    store, writes = simulation.store, simulation.store.writes
    turns = 0
    while not any(message.sent_at for message in store.notifications.of_run(run.id)):
        for act in (simulation.turn_all, lambda: NotifyPass(post)(simulation.server.plane.control)):
            if turns < 8:
                (store.fail_before if where == "before" else store.fail_after)(store.writes + 1, Crash())
            simulation.survive(act)
        turns += 1
        assert turns < 50
    assert simulation.crashes >= 2
    assert store.writes > writes
    assert {message.key for batch in post.sent for message in batch} == {
        message.key for message in store.notifications.of_run(run.id)
    }
    assert [message.about["outcome"] for message in post.sent[-1]] == ["completed"]
