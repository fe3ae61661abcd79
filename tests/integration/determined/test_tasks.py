"""What Determined's training library asks of the gateway from inside a run, as its versions send it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from determined_calls import Answer, DeterminedCalls
from determined_experiments import create, logged_in, turn
from served import TOKEN, Served, served
from sim_engine import Behaviour
from tarmac.control.reconcilers.deliver import launch_of
from tarmac.model.lifecycle import AttemptState, RunState
from tarmac.model.run import Run
from tarmac.node.attempt.document import Launch
from tarmac.systems.determined.gateway.launching import with_gateway
from tarmac.systems.determined.gateway.tokens import Claim, TokenKind, TokenMaker
from tarmac.systems.registry import apply_conventions

UUID = "8d8a3c0e-4f7e-4d5e-9f53-6a8f9f2f3a11"
SINGLE = """\
name: digits
entrypoint: python3 train.py
hyperparameters: {lr: 0.1}
searcher: {name: single, metric: val, smaller_is_better: true, max_length: {batches: 50}}
"""


class Inside:
    """The code of the newest attempt of a run."""

    def __init__(self, here: Served, run: Run) -> None:
        self.here, self.run = here, run
        attempt = here.store.attempts(run.id)[-1]
        control = here.plane.control
        self.launch = launch_of(control, run, attempt, dict(control.node_table().by_name))
        worker = self.launch.nodes[0].workers[0]
        self.env = worker.env
        self.calls = DeterminedCalls(here.gateway_port)
        self.trial = self.env["DET_TRIAL_ID"]

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        headers = {"Grpc-Metadata-x-allocation-token": f"Bearer {self.env['DET_SESSION_TOKEN']}"}
        raw = b"" if body is None else json.dumps(body).encode()
        return self.calls.ask(method, f"/api/v1/{path}", raw=raw, headers=headers)

    def report(self, group: str, step: int, **metrics: Any) -> Answer:
        inner = {"avgMetrics": metrics, "batchMetrics": []}
        found = {"metrics": inner, "stepsCompleted": step, "trialId": int(self.trial), "trialRunId": 1}
        return self.ask("POST", f"trials/{self.trial}/metrics", {"group": group, "metrics": found})

    def save(self, uuid: str, steps: int) -> Answer:
        body = {
            "uuid": uuid,
            "taskId": self.env["DET_TASK_ID"],
            "allocationId": self.env["DET_ALLOCATION_ID"],
            "metadata": {"steps_completed": steps},
            "resources": {"state.json": "20", "code/": "0"},
            "state": "STATE_COMPLETED",
        }
        return self.ask("POST", "checkpoints", body)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.chdir(tmp_path)  # the directory that a submission takes for its code

    def endless(_launch: Launch) -> Behaviour:
        return Behaviour(duration_s=1e6)

    with served(tmp_path / "home", behaviour=endless) as made:
        control = made.plane.control
        control.apply_conventions = with_gateway(made.gateway(made.service()), apply_conventions)
        yield made


def single(here: Served, text: str = SINGLE) -> Inside:
    run_id = here.client().submit(text, filename="const.yaml").id
    here.turn()
    here.turn()
    run = here.store.run(run_id)
    assert run is not None
    return Inside(here, run)


def test_the_launch_leads_to_the_gateway(here: Served) -> None:
    """D1: variables and info files name it, its numbers, and a place for checkpoints of every version."""
    inside = single(here)
    [node] = inside.launch.nodes
    cluster = json.loads(node.files["determined/info/cluster.json"])
    trial = json.loads(node.files["determined/info/trial.json"])
    assert inside.env["DET_MASTER"] == cluster["master_url"] == f"http://127.0.0.1:{here.gateway_port}"
    assert inside.env["DET_SESSION_TOKEN"] == cluster["session_token"]
    assert (trial["trial_id"], trial["experiment_id"], trial["steps_completed"]) == (1, 1, 0)
    assert cluster["allocation_id"] == inside.env["DET_ALLOCATION_ID"]
    assert trial["config"]["checkpoint_storage"]["type"] == "shared_fs"
    assert [mount.source for mount in node.mounts if mount.target == "/determined_shared_fs"] == [
        "/mnt/checkpoints"
    ]
    assert "DET_RETRY_CONFIG" not in inside.env
    assert inside.env["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] == "1"
    assert inside.ask("GET", "me")[0] == 200


def test_metrics_are_those_of_the_run(here: Served) -> None:
    """D1: of any group, with numbers that are not finite; the library reads back what was validated last."""
    inside = single(here)
    assert inside.report("training", 10, loss=0.5, note="x") == (200, {})
    assert inside.report("training", 20, loss="NaN") == (200, {})
    best = f"experiments/{inside.env['DET_EXPERIMENT_ID']}/searcher/best_searcher_validation_metric"
    assert inside.ask("GET", best)[0] == 404
    assert inside.report("validation", 20, val=0.25) == (200, {})
    assert inside.report("validation", 30, val=0.75) == (200, {})
    summaries = {
        (each.key.group, each.key.name): (each.count, each.last.step)
        for each in here.store.metrics.summaries([inside.run.id])
    }
    assert summaries == {("training", "loss"): (2, 20), ("validation", "val"): (2, 30)}
    short = inside.ask("GET", f"trials/{inside.trial}")[1]["trial"]["summaryMetrics"]
    val = short["validation_metrics"]["val"]
    assert (val["sum"], val["mean"], val["count"], val["min"]) == (1.0, 0.5, 2, 0.25)
    assert short["avg_metrics"]["loss"]["mean"] is None, "one was NaN"
    assert inside.ask("GET", best) == (200, {"metric": 0.25})
    assert inside.ask("GET", f"trials/{inside.trial}")[1]["trial"]["latestValidation"]["totalBatches"] == 30
    older = {"stepsCompleted": 40, "metrics": {"avgMetrics": {"val": 0.5}}}
    assert inside.ask("POST", f"trials/{inside.trial}/validation_metrics", older) == (200, {})
    assert inside.ask("POST", f"trials/{inside.trial}/metrics", {"group": "training"})[0] == 400


def test_a_report_that_is_sent_again_counts_once(here: Served) -> None:
    """D1: with a step it is the same report, without one where its time is the same; else another."""
    inside = single(here)
    for _ in range(3):
        assert inside.report("training", 10, loss=0.5, other="NaN") == (200, {})
        assert inside.report("validation", 10, val=0.5) == (200, {})
    assert inside.report("training", 20, loss=0.5, other="NaN") == (200, {})
    for second in (1, 1, 2):
        found = {
            "metrics": {"avgMetrics": {"load": 0.0}},
            "reportTime": f"2026-11-23T10:00:0{second}.123456+00:00",
        }
        assert (
            inside.ask("POST", f"trials/{inside.trial}/metrics", {"group": "cpu", "metrics": found})[0] == 200
        )
    counts = {each.key.name: each.count for each in here.store.metrics.summaries([inside.run.id])}
    assert counts == {"loss": 2, "other": 2, "val": 1, "load": 2}


@pytest.mark.parametrize("body", [25, {"progress": 25}, {"progress": 0.5, "is_raw": True}])
def test_progress_is_a_length_or_a_fraction(here: Served, body: Any) -> None:
    inside = single(here)
    assert inside.ask("POST", f"trials/{inside.trial}/progress", body) == (200, {})
    assert here.store.metrics.latest([inside.run.id])[inside.run.id].report.progress == 0.5


def test_a_reported_checkpoint_is_where_the_next_attempt_begins(here: Served) -> None:
    """D12: the newest that is whole, with how far it is; one that is deleted is no more."""
    inside = single(here)
    assert inside.save(UUID, 10) == (200, {})
    other = UUID.replace("8", "9")
    assert inside.save(other, 20) == (200, {})
    found = inside.ask("GET", f"checkpoints/{UUID}")[1]["checkpoint"]
    assert (found["uuid"], found["metadata"], found["resources"]["state.json"]) == (
        UUID,
        {"steps_completed": 10},
        "20",
    )
    assert found["training"]["trialId"] == int(inside.trial)
    assert Inside(here, inside.run).env["DET_LATEST_CHECKPOINT"] == other
    gone = {"checkpoints": [{"uuid": other, "resources": {"resources": {}}}]}
    assert inside.ask("PATCH", "checkpoints", gone) == (200, {})
    again = Inside(here, inside.run)
    assert (again.env["DET_LATEST_CHECKPOINT"], again.env["DET_STEPS_COMPLETED"]) == (UUID, "10")
    assert inside.save("../x", 1)[0] == 400


def test_a_person_says_more_of_a_reported_checkpoint_and_removes_its_files(here: Served) -> None:
    """As `Checkpoint.add_metadata`, `remove_files` and `delete` of the client."""
    inside, person = single(here), DeterminedCalls(here.gateway_port, token=TOKEN)
    assert inside.save(UUID, 10) == (200, {})
    wish = {"checkpoint": {"uuid": UUID, "metadata": {"steps_completed": 10, "by": "me"}}}
    assert person.post(f"/api/v1/checkpoints/{UUID}/metadata", wish) == (200, {})
    wish = {"checkpointUuids": [UUID], "checkpointGlobs": ["code/"]}
    assert person.post("/api/v1/checkpoints/rm", wish) == (200, {})
    found = person.get(f"/api/v1/checkpoints/{UUID}")[1]["checkpoint"]
    assert (found["metadata"]["by"], found["resources"]) == ("me", {"state.json": "20"})
    assert found["state"] == "STATE_PARTIALLY_DELETED"
    other = UUID.replace("8", "9")
    assert (
        person.post(f"/api/v1/checkpoints/{other}/metadata", wish | {"checkpoint": {"metadata": {}}})[0]
        == 404
    )


def test_reports_are_streamed_whole_also_of_trials_that_use_a_checkpoint(here: Served) -> None:
    """As `iter_trials_metrics` and `Checkpoint.get_metrics` of the client."""
    inside, person = single(here), DeterminedCalls(here.gateway_port, token=TOKEN)
    inside.report("training", 10, loss=0.5)
    inside.report("training", 20, loss=0.25)
    inside.report("validation", 20, val=0.75)
    inside.save(UUID, 20)
    info = {"checkpointUuid": UUID, "trialId": int(inside.trial), "trialSourceInfoType": "INFERENCE"}
    said = inside.ask("POST", "trial-source-info", {"trialSourceInfo": info})
    assert said == (200, {"trialId": int(inside.trial), "checkpointUuid": UUID})

    def streamed(name: str, **query: Any) -> list[Any]:
        _, data = person.raw("GET", f"/api/v1/trials/metrics/{name}?{urlencode({'trialIds': 1, **query})}")
        return [report for line in data.splitlines() for report in json.loads(line)["result"]["metrics"]]

    training = streamed("training_metrics")
    assert [(each["totalBatches"], each["metrics"]) for each in training] == [
        (10, {"avg_metrics": {"loss": 0.5}}),
        (20, {"avg_metrics": {"loss": 0.25}}),
    ]
    [validation] = streamed("trial_metrics", group="validation")
    assert (validation["trialId"], validation["metrics"]) == (1, {"validation_metrics": {"val": 0.75}})
    found = person.get(f"/api/v1/checkpoints/{UUID}/metrics", metricGroup="training")[1]["metrics"]
    assert found == training
    assert person.get("/api/v1/trials/metrics/trial_metrics", trialIds=7)[0] == 404


def test_a_pause_reaches_the_code_that_waits_for_it(here: Served) -> None:
    """D12: a long poll is answered when somebody pauses; the acknowledgement is taken."""
    inside = single(here)
    path = f"allocations/{inside.env['DET_ALLOCATION_ID']}/signals"
    assert inside.ask("GET", f"{path}/preemption?timeout_seconds=0") == (200, {"preempt": False})
    found: list[Answer] = []
    waiting = threading.Thread(
        target=lambda: found.append(inside.ask("GET", f"{path}/preemption?timeout_seconds=60"))
    )
    waiting.start()
    here.client().pause(inside.run.id)
    waiting.join(30)
    assert found == [(200, {"preempt": True})]
    assert inside.ask("POST", f"{path}/ack_preemption") == (200, {})


def test_operations_of_a_search_are_worked_off(here: Served) -> None:
    """D10, before 0.38: one of the length in the file, and then there is no more."""
    inside = single(here)
    path = f"trials/{inside.trial}/searcher"
    operation = {"op": {"validateAfter": {"length": "50"}}, "completed": False}
    assert inside.ask("GET", f"{path}/operation") == (200, operation)
    done = {"op": {"length": 50}, "searcherMetric": 0.1}
    assert inside.ask("POST", f"{path}/completed_operation", done) == (200, {})
    assert inside.ask("POST", f"{path}/completed_operation", done) == (200, {})
    assert inside.ask("GET", f"{path}/operation")[1]["completed"] is True


def test_operations_of_a_search_that_promotes_are_absolute(here: Served) -> None:
    """D10, before 0.38: of nine trials three train three times as long, and one of these nine times."""
    searcher = "name: async_halving, metric: val, num_rungs: 3, divisor: 3, max_trials: 9, max_length: 9"
    text = SINGLE.partition("searcher:")[0] + f"searcher: {{{searcher}, max_concurrent_trials: 3}}\n"
    experiment = create(logged_in(here), text)["jobId"]
    asked: dict[int, list[int]] = {}
    for _ in range(100):
        turn(here)
        trials = [each for each in here.store.experiments.trials(experiment) if each.end is None]
        for trial in trials:
            run, lengths = here.store.run(trial.run_id), asked.setdefault(trial.number, [])
            if run is None or run.state is not RunState.RUNNING or trial.length in lengths:
                continue
            inside = Inside(here, run)
            path = f"trials/{inside.trial}/searcher"
            found = inside.ask("GET", f"{path}/operation")[1]
            length = int(found["op"]["validateAfter"]["length"])
            assert not found["completed"]
            done = {"op": {"length": length}, "searcherMetric": trial.number}
            assert inside.ask("POST", f"{path}/completed_operation", done) == (200, {})
            lengths.append(length)
    assert [asked[number] for number in sorted(asked)] == [[1, 3, 9], [1, 3], [1, 3], *[[1]] * 6]


def test_nodes_find_each_other_and_gather_what_each_says(here: Served) -> None:
    inside = single(here)
    path = f"allocations/{inside.env['DET_ALLOCATION_ID']}"
    found = inside.ask("GET", f"{path}/resources/{inside.env['DET_RESOURCES_ID']}/rendezvous")[1]
    assert found["rendezvousInfo"]["rank"] == 0
    assert found["rendezvousInfo"]["slots"] == [1]
    said: list[Answer] = []
    bodies = [{"requestUuid": name, "numPeers": 2, "data": {"at": name}} for name in ("b", "a")]
    threads = [
        threading.Thread(target=lambda body=body: said.append(inside.ask("POST", f"{path}/all_gather", body)))
        for body in bodies
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert said == [(200, {"data": [{"at": "a"}, {"at": "b"}]})] * 2


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("runs/start", {"runId": 1, "checkpointStorage": {}}),
        ("trials/{trial}/runner/metadata", {"state": "TRAINING"}),
        ("trials/{trial}/early_exit", {"reason": "EXITED_REASON_USER_REQUESTED_STOP"}),
        ("task/logs", {"logs": [{"log": "hello"}]}),
        ("webhooks/custom", {}),
        ("trials/profiler/metrics", {"trialProfilerMetrics": {}}),
        ("allocations/a/acceleratorData", {}),
        ("allocations/a/resources/r/daemon", None),
        ("allocations/a/ready", None),
        ("allocations/a/waiting", None),
        ("allocations/a/proxy_address", {}),
    ],
)
def test_what_tarmac_sees_for_itself_is_taken(here: Served, path: str, body: Any) -> None:
    inside = single(here)
    assert inside.ask("POST", path.format(trial=inside.trial), body) == (200, {})


def test_metadata_of_a_run_is_read_back(here: Served) -> None:
    inside = single(here)
    path = f"runs/{inside.trial}/metadata"
    assert inside.ask("GET", path) == (200, {"metadata": None})
    assert inside.ask("POST", path, {"metadata": {"a": [1]}}) == (200, {"metadata": {"a": [1]}})
    assert inside.ask("GET", path) == (200, {"metadata": {"a": [1]}})


def test_a_token_is_good_for_its_own_trial(here: Served) -> None:
    """One run cannot report for another, nor with a token of an attempt that never was."""
    inside, other = single(here), single(here)
    body = {"group": "training", "metrics": {"stepsCompleted": 1, "metrics": {"avgMetrics": {"x": 1}}}}
    assert inside.ask("POST", f"trials/{other.trial}/metrics", body)[0] == 403
    claim = Claim(kind=TokenKind.ALLOCATION, subject="nothing.1", owner="ada")
    made = TokenMaker(TOKEN).make(claim, until=here.clock.now() + 60)
    inside.env = {**inside.env, "DET_SESSION_TOKEN": made}
    assert inside.ask("POST", "checkpoints", {"uuid": UUID})[0] == 401


def test_the_library_of_0_34_may_come_with_the_token_of_a_person(here: Served) -> None:
    """It takes one that it finds on the node: what it asks names its trial."""
    inside = single(here)
    person = Claim(kind=TokenKind.USER, subject="determined")
    token = TokenMaker(TOKEN).make(person, until=here.clock.now() + 60)
    calls = DeterminedCalls(here.gateway_port, token)
    allocation = f"/api/v1/allocations/{inside.env['DET_ALLOCATION_ID']}"
    assert calls.post("/api/v1/runs/start", {"runId": int(inside.trial)})[0] == 200
    assert calls.get(f"{allocation}/signals/preemption", timeout_seconds=0) == (200, {"preempt": False})
    saved = {"uuid": UUID, "taskId": inside.env["DET_TASK_ID"], "metadata": {"steps_completed": 3}}
    assert calls.post("/api/v1/checkpoints", saved)[0] == 200
    assert Inside(here, inside.run).env["DET_LATEST_CHECKPOINT"] == UUID
    assert calls.post("/api/v1/checkpoints", {"uuid": UUID})[0] == 404


def test_a_token_ends_with_its_attempt(here: Served) -> None:
    """What an attempt left behind reports nothing for the run, nor reads of it."""
    inside = single(here)
    assert inside.report("training", 1, x=1.0) == (200, {})
    here.client().stop(inside.run.id)
    here.turn()
    here.clock.advance(inside.run.spec.pause.grace_s + 1)
    here.turn()
    assert here.store.attempts(inside.run.id)[-1].state is AttemptState.ENDED
    assert inside.report("training", 2, x=2.0)[0] == 401
    assert inside.ask("GET", "me")[0] == 401
    assert here.store.metrics.summaries([inside.run.id])[0].count == 1
