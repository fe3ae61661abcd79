"""The routes over HTTP, with the real client: what they answer, and how they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from served import HELLO, OWNER, Served
from tarmac import api
from tarmac.model.errors import InvalidInput, NotFound, Refused, StorageFull, TarmacError, Unauthorized


def test_the_newest_run_has_a_name_of_its_own(plane: Served) -> None:
    """N3: `@last` wherever a run is asked for, of the library too; it may have ended long ago."""
    client = plane.client()
    with pytest.raises(NotFound, match="there is no run yet"):
        client.run("@last")
    client.submit(HELLO)
    newest = client.submit(HELLO).id
    assert client.run("@last").id == newest
    assert client.stop("@last").id == newest
    plane.advance(100 * 86_400.0)
    assert client.run("@last").id == newest


def test_a_run_from_submission_to_end(plane: Served) -> None:
    client = plane.client()
    run = client.submit(HELLO, filename="hello.yaml")
    assert (run.name, run.state, run.user, run.exit_status) == ("hello", "queued", OWNER, None)
    assert run.source == HELLO
    plane.turn()
    plane.turn()
    assert client.run("hello").state == "running"
    [attempt] = client.attempts(run.id)
    assert attempt.nodes == (attempt.workers[0].node,)
    assert attempt.directory == f"/attempts/{run.id}.1"
    assert [node.slots_used for node in client.nodes()] == [0, 0]
    assert sum(len(node.runs) for node in client.nodes()) == 1
    plane.advance(60)
    ended = client.wait(run.id, timeout_s=120)
    assert (ended.state, ended.outcome, ended.exit_status) == ("ended", "completed", 0)
    assert [event.event for event in client.events("hello")] == [
        "accepted",
        "staged",
        "placed",
        "started",
        "finished",
    ]


def test_the_same_key_is_the_same_run(plane: Served) -> None:
    client = plane.client()
    first = client.submit(HELLO, idempotency_key="once")
    assert client.submit(HELLO, idempotency_key="once").id == first.id
    with pytest.raises(Refused, match="was used for another run"):
        client.submit("command: echo other", idempotency_key="once")
    assert len(client.runs().runs) == 1


def test_many_are_accepted_together_or_not_at_all(plane: Served) -> None:
    client = plane.client()
    runs = client.submit_all([{"source": HELLO}, {"source": HELLO, "overrides": {"name": "second"}}])
    assert [run.name for run in runs] == ["hello", "second"]
    with pytest.raises(InvalidInput):
        client.submit_all([{"source": HELLO}, {"source": "nonsense: true"}])
    assert len(client.runs().runs) == 2


def test_stop_pause_and_resume(plane: Served) -> None:
    client = plane.client()
    run = client.submit(HELLO)
    assert client.pause(run.id).state == "paused"
    assert client.resume(run.id).state == "queued"
    stopped = client.stop(run.id)
    assert (stopped.state, stopped.outcome, stopped.exit_status) == ("ended", "stopped", 143)
    with pytest.raises(Refused, match="cannot be resumed"):
        client.resume(run.id)


def test_many_runs_get_a_command_at_once_and_each_has_its_result(plane: Served) -> None:
    client = plane.client()
    first, second, ended = (client.submit(HELLO, overrides={"name": f"run-{at}"}) for at in range(3))
    array = client.submit(HELLO, overrides={"name": "many", "array": "0-2"}).array_id
    client.stop(ended.id)
    paused = client.command("pause", [first.id, "run-1", ended.id, "nothing", str(array), first.id])
    assert [each.run.state if each.run else None for each in paused] == [
        *("paused", "paused", None, None, "paused", "paused")
    ]
    assert [each.error.code if each.error else None for each in paused] == [
        *(None, None, "refused", "not_found", None, None)
    ]
    assert dict(client.array("many").counts) == {"paused": 3}
    assert "a run that has ended cannot be paused" in str(paused[2].error)
    many = [second.id] * (api.MOST_COMMANDED + 1)
    assert {each.run.state for each in client.command("stop", many, now=True) if each.run} == {"ended"}


def test_a_clone_is_changed_by_overrides(plane: Served) -> None:
    client = plane.client()
    run = client.submit(HELLO)
    clone = client.submit(
        clone=run.id, overrides={"slots": 3, "env": {"SEED": "7"}, "labels": {"kind": "again"}}
    )
    assert (clone.slots, clone.labels, clone.name) == (3, {"kind": "again"}, "hello")
    assert clone.spec["environment"]["variables"] == {"SEED": "7"}
    with pytest.raises(InvalidInput, match="needs the text of a run file"):
        client.submit()


def test_what_is_wrong_with_a_submission_is_said_with_its_place(plane: Served, tmp_path: Path) -> None:
    client = plane.client()
    with pytest.raises(InvalidInput) as refused:
        client.submit("command: echo\nslotz: 2\n", filename="bad.yaml")
    [problem] = refused.value.problems
    assert (problem.file, problem.line) == ("bad.yaml", 2)
    with pytest.raises(InvalidInput, match="does not exist"):
        client.submit("command: echo\ncode: missing\n", directory=tmp_path)
    with pytest.raises(InvalidInput, match="does not exist"):
        client.submit(f"command: echo\ncode: {'é' * 300}\n", directory=tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="is neither a directory nor an archive"):
        client.submit("command: echo\ncode: file\n", directory=tmp_path)
    assert client.runs().runs == []


def test_a_check_answers_with_all_problems(plane: Served) -> None:
    client = plane.client()
    report = client.check("command: echo\nslotz: 2\npriorty: 3\n", filename="bad.yaml")
    assert [problem.line for problem in report.problems] == [2, 3]
    assert client.check(HELLO) == api.CheckReport(problems=[], warnings=[])


def test_a_dry_run_keeps_nothing(plane: Served) -> None:
    client = plane.client()
    answer = client.dry_run(HELLO, overrides={"slots": 4})
    assert answer.placement is not None
    assert [node.slots for node in answer.placement] == [(0, 1, 2, 3)]
    assert answer.nodes[0].workers[0].env["NNODES"] == "1"
    assert client.runs().runs == []


def test_what_can_never_fit_is_refused_with_what_would(plane: Served) -> None:
    with pytest.raises(Refused):
        plane.client().submit("command: echo\nslots: 900\n")


def test_an_unknown_run_is_answered_with_the_nearest(plane: Served) -> None:
    client = plane.client()
    client.submit(HELLO)
    with pytest.raises(NotFound) as missing:
        client.run("helo")
    assert missing.value.hint is not None
    assert "hello" in missing.value.hint
    assert missing.value.exit_code == 2


def test_the_list_has_pages_and_filters(plane: Served) -> None:
    client = plane.client()
    for number in range(5):
        client.submit(HELLO, overrides={"name": f"run{number}", "labels": {"even": str(number % 2 == 0)}})
    page = client.runs(limit=2)
    assert [run.name for run in page.runs] == ["run4", "run3"]
    assert [run.name for run in client.runs(before=page.next).runs] == ["run2", "run1", "run0"]
    assert client.runs().next is None
    assert [run.name for run in client.runs(labels={"even": "False"}).runs] == ["run3", "run1"]
    assert [run.name for run in client.runs(name="run1").runs] == ["run1"]
    assert client.runs(user="nobody").runs == []
    with pytest.raises(InvalidInput, match="state"):
        client.runs(states=["asleep"])


def test_runs_that_ended_long_ago_leave_the_plain_list(plane: Served) -> None:
    client = plane.client()
    client.stop(client.submit(HELLO).id)
    plane.clock.advance(15 * 86_400)
    assert client.runs().runs == []
    assert len(client.runs(everything=True).runs) == 1
    assert len(client.runs(states=["ended"]).runs) == 1


def test_a_drained_node_is_shown_so(plane: Served) -> None:
    client = plane.client()
    name = client.nodes()[0].name
    assert [node.state for node in client.drain(name)] == ["drained"]
    (node,) = client.drain(name, reason=" fan is loud ")
    assert node.reason == "fan is loud"
    assert node.drain is not None
    assert node.drain.reason == "fan is loud"
    assert client.nodes()[0].drain == node.drain
    client.drain(*[each.name for each in client.nodes()], reason="fan is loud")
    run = client.submit("command: echo\nslots: 1\n")
    plane.turn()
    text = " ".join(reason.text for reason in client.why(run.id).reasons)
    assert f"drained by {node.drain.user} on " in text
    assert "(fan is loud): it takes no new runs until it is undrained" in text
    assert [(node.state, node.drain) for node in client.undrain(name)] == [("up", None)]
    with pytest.raises(NotFound):
        client.drain("nowhere")


def test_a_reserved_node_is_shown_so(plane: Served) -> None:
    client = plane.client()
    names = [node.name for node in client.nodes()]
    begin_at = plane.clock.now()
    terms = {"begin_at": begin_at, "duration_s": 60.0, "name": "maint"}
    made = client.reserve(*names, **terms, projects=["vision"], reason="course")
    assert (made.name, sorted(made.nodes), made.still_there) == ("maint", sorted(names), ())
    assert client.reservations() == [made]
    assert {each.name for node in client.nodes() for each in node.reservations} == {"maint"}
    run = client.submit("command: echo\nslots: 1\n")
    plane.turn()
    reason = client.why(run.id).reasons[0]
    assert reason.code == "node_reserved"
    assert "reserved for project vision" in reason.text
    assert "by reservation maint (course)" in reason.text
    with pytest.raises(Refused, match="maint has"):
        client.reserve(names[0], **{**terms, "name": "other", "begin_at": begin_at + 59})
    assert client.release("maint") == made
    assert client.reservations() == []
    with pytest.raises(InvalidInput):
        client.reserve(names[0], **{**terms, "duration_s": 0.0})
    with pytest.raises(InvalidInput):
        client.reserve(names[0], **{**terms, "name": "no/name"})


def test_why_a_run_waits(plane: Served) -> None:
    client = plane.client()
    for node in client.nodes():
        client.drain(node.name)
    run = client.submit("command: echo\nslots: 1\n")
    plane.turn()
    why = client.why(run.id)
    assert why.state == "queued"
    assert {reason.code for reason in why.reasons} == {"node_drained"}


def test_a_full_disk_is_said_and_nothing_is_kept(plane: Served) -> None:
    client = plane.client()
    plane.store.fill_disk()
    with pytest.raises(StorageFull) as refused:
        client.submit(HELLO)
    assert (refused.value.http_status, refused.value.exit_code) == (503, 1)
    plane.store.fill_disk(False)
    assert client.runs().runs == []


def test_only_the_users_own_shell_is_inherited(plane: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/my/bin")
    monkeypatch.setenv("LD_PRELOAD", "/my/evil.so")
    inherited = plane.client().submit(HELLO).spec["environment"]["inherited"]
    assert inherited["PATH"] == "/my/bin"
    assert inherited.keys() <= {"PATH", "VIRTUAL_ENV", "CONDA_PREFIX"}


def test_a_key_that_comes_again_with_another_request_is_refused(plane: Served) -> None:
    """Whatever differs: the answer of the first would be taken for that of the second."""
    client = plane.client()
    first = client.submit(HELLO, idempotency_key="once", overrides={"env": {"A": "1"}})
    again = client.submit(HELLO, idempotency_key="once", overrides={"env": {"A": "1"}})
    assert again.id == first.id
    for other in ({"env": {"A": "2"}}, {"name": "other"}, {}, {"priority": 5}):
        with pytest.raises(Refused, match="was used for another run") as refused:
            client.submit(HELLO, idempotency_key="once", overrides=other)
        assert refused.value.http_status == 409
    rehearsed = {"rehearse": "2x1"}
    second = client.submit(HELLO, idempotency_key="twice", overrides=rehearsed)
    assert client.submit(HELLO, idempotency_key="twice", overrides=rehearsed).id == second.id


def test_a_key_has_a_length(plane: Served) -> None:
    client = plane.client()
    assert client.submit(HELLO, idempotency_key="k" * 255).name == "hello"
    with pytest.raises(InvalidInput, match=r"idempotency_key: .*255"):
        client.submit(HELLO, idempotency_key="k" * 256)


@pytest.mark.parametrize("depth", [100, 900, 100_000])
def test_values_that_are_nested_without_end_are_refused(plane: Served, depth: int) -> None:
    nested = "[" * depth + "]" * depth
    body = f'{{"source": "command: echo", "overrides": {{"labels": {nested}}}}}'
    with pytest.raises(TarmacError) as refused:
        plane.transport().request("POST", "/runs", body=body.encode())
    assert refused.value.http_status in (400, 422)
    assert plane.client().submit(HELLO).name == "hello"


def test_an_unknown_pool_is_answered_with_those_there_are(plane: Served) -> None:
    with pytest.raises(Refused, match="wants pool 'defualt', and there is none") as refused:
        plane.client().submit("name: lost\npool: defualt\ncommand: echo\n")
    assert refused.value.hint == "did you mean default? pools: default"
    with pytest.raises(Refused, match="wants pool 'A100'") as refused:
        plane.client().submit("name: lost\npool: A100\ncommand: echo\n")
    assert refused.value.hint == "pools: default; [names] in settings.toml says what 'A100' is called here"


def test_a_missing_token_is_answered_with_where_to_put_it(plane: Served) -> None:
    with pytest.raises(Unauthorized, match="TARMAC_TOKEN"):
        plane.remote_client("wrong").runs()


@pytest.mark.parametrize(
    "source",
    [
        "local:///etc/passwd",
        "LOCAL:///etc/passwd",
        "simplecache::file:///etc/passwd",
        "memory://x",
        "dir::/etc",
    ],
)
def test_datasets_read_the_files_of_the_server_by_their_path_alone(plane: Served, source: str) -> None:
    with pytest.raises(InvalidInput):
        plane.client().add_dataset("stolen", source)
    assert plane.client().datasets() == []


def test_the_password_of_a_dataset_is_in_no_answer(plane: Served) -> None:
    client = plane.client()
    added = client.add_dataset("mine", "ftp://ann:s3cr3t@127.0.0.1:1/x")
    assert added.source == client.datasets()[0].source == "ftp://***@127.0.0.1:1/x"
    with pytest.raises(Refused) as refused:
        client.add_dataset("mine", "ftp://ann:other@127.0.0.1:1/x")
    assert "s3cr3t" not in str(refused.value)
    with pytest.raises(InvalidInput, match="no valid host"):
        client.add_dataset("odd", "http://[x/")


def test_code_over_the_usual_limit_is_refused_at_submission(plane: Served, tmp_path: Path) -> None:
    directory = tmp_path / "project"
    directory.mkdir()
    with (directory / "data.bin").open("wb") as data:
        data.truncate(2 << 30)
    with pytest.raises(InvalidInput, match="more than"):
        plane.client().submit("code: .\ncommand: echo\n", directory=directory)


def test_usage_adds_up_what_runs_held(plane: Served) -> None:
    client = plane.client()
    client.submit("command: echo\nslots: 1\nproject: vision\n")
    plane.turn()
    plane.clock.advance(60.0)
    plane.turn()
    (used,) = client.usage()
    assert (used.project, used.runs, used.attempts) == ("vision", 1, 1)
    assert used.slot_s > 0.0
    with pytest.raises(InvalidInput, match="the range of time is empty"):
        client.usage(since=plane.clock.now() + 10.0)


def test_usage_over_time_is_the_mean_of_each_step(plane: Served) -> None:
    """Slots that were held for half of a step count half."""
    client = plane.client()
    client.submit("command: echo\nslots: 2\n")
    plane.turn()
    plane.clock.advance(60.0)
    (found,) = client.usage_history(since=plane.clock.now() - 240.0, steps=2)
    assert (found.cluster, found.pool, found.step_s) == ("local", "default", 120.0)
    assert found.slots == pytest.approx((0.0, 1.0), abs=0.1)
    with pytest.raises(InvalidInput, match="the range of time is empty"):
        client.usage_history(since=plane.clock.now() + 10.0)
