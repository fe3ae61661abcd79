"""What a launch script may build, and what is refused before anything is sent: in the documented words."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tarmac import clusterfudge as cf
from tarmac.client.launching import json_text
from tarmac.model.errors import InvalidInput
from tarmac.model.resources import Resources
from tarmac.model.spec import FailureBehaviour, LocalDirectory, Queueing, Repository, RunSpec
from tarmac.systems.clusterfudge.reader import LARGEST_PROJECT_BYTES
from tarmac.systems.clusterfudge.scripts import form
from tarmac.systems.clusterfudge.scripts.form import request_form
from tarmac.systems.registry import read

PROCESS = cf.Process(["true"])
JOB = cf.Job("a", 1, [PROCESS])


def spec_of(request: cf.CreateLaunchRequest) -> RunSpec:
    """What the server makes of a request."""
    text = json_text(request_form(request, script="nowhere.py"))
    return read(text, filename="launch-request.json", directory="/", dialect="clusterfudge").spec


def test_a_configuration_is_written_and_read_as_json() -> None:
    """C1: by the methods that the client's class has."""
    config = cf.ClusterfudgeConfig(token="t")
    assert (config.to_dict(), config.to_json()) == ({"token": "t"}, '{"token": "t"}')
    assert cf.ClusterfudgeConfig.from_json(config.to_json(indent=1)) == config
    assert cf.ClusterfudgeConfig.from_dict({"token": "t", "other": 1}) == config
    with pytest.raises(KeyError, match="token"):
        cf.ClusterfudgeConfig.from_dict({})


def test_the_defaults_are_those_of_the_client() -> None:
    """C1, C10: what is not given, and in which order things may be given without a name."""
    assert dataclasses.asdict(cf.CreateLaunchRequest([JOB])) == {
        "jobs": [dataclasses.asdict(JOB)],
        **dict.fromkeys(("name", "description", "deployment", "cluster", "shard", "hostnames")),
        "queueing_behaviour": None,
    }
    assert cf.QueueingBehaviour().enqueue_if_cluster_busy is True
    assert (JOB.replica_failure_behaviour, PROCESS.resource_requirements) == (None, None)
    assert cf.GitRepo("r", "b").commit is None
    with pytest.raises(TypeError):
        cf.GitRepo("r")  # type: ignore[call-arg]
    assert cf.Resources(1, 2, 3, 4, 5) == cf.Resources(cpus=1, memory_mb=2, a100_40gb=3, a100_80gb=4, h100=5)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (cf.CreateLaunchRequest([]), "jobs must be non-empty"),
        (cf.CreateLaunchRequest([JOB, cf.Job("", 1, [PROCESS])]), "short_name must be non-empty for job 1"),
        (cf.CreateLaunchRequest([cf.Job("a", 0, [PROCESS])]), "replicas must be non-empty for job a"),
        (cf.CreateLaunchRequest([cf.Job("a", 1, [])]), "processes must be non-empty for job a"),
        (cf.CreateLaunchRequest([cf.Job("a", 1, [cf.Process([])])]), "command must be non-empty for job a"),
        (
            cf.CreateLaunchRequest([JOB], deployment="."),  # type: ignore[arg-type]
            "deployment must be a LocalDir or GitRepo",
        ),
        (
            cf.CreateLaunchRequest([cf.Job("a", 1, [PROCESS], 3)]),  # type: ignore[arg-type]
            "Unknown replica failure behaviour: 3",
        ),
    ],
)
def test_documented_refusals_have_the_documented_words(request_: cf.CreateLaunchRequest, words: str) -> None:
    """C1: scripts and their tests may look for these very words."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 the words are compared whole
        request_form(request_, script="nowhere.py")
    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("process", "words"),
    [
        (cf.Process("python train.py"), "must be a list, not the text 'python train.py'"),
        (cf.Process(["python", 3]), "must be a text, not 3 (write '3')"),  # type: ignore[list-item]
        (cf.Process(["a"], cf.Resources(h100="2")), "h100 of job a must be a whole number, not '2'"),  # type: ignore[arg-type]
        (cf.Process(["a"], cf.Resources(h100=True)), "h100 of job a must be a whole number, not True"),
        (cf.Process(["a"], {"h100": 2}), "must be Resources, not {'h100': 2}"),  # type: ignore[arg-type]
    ],
)
def test_frequent_mistakes_are_told_at_once(process: cf.Process, words: str) -> None:
    """C2, C3: before anything is sent."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 the words are looked for below
        request_form(cf.CreateLaunchRequest([cf.Job("a", 1, [process])]), script="nowhere.py")
    assert words in str(caught.value)


def test_what_is_asked_for_reaches_the_spec() -> None:
    """C3, C4, C5, C6, C10: field by field."""
    request = cf.CreateLaunchRequest(
        jobs=[
            cf.Job("a b", 2, [cf.Process([Path("run.sh"), "é 🎉"], cf.Resources(4, 512, h200=8))]),
            cf.Job("c", 1, [PROCESS], cf.OnReplicaFailureOtherReplicasAreStopped()),
            cf.Job("d", 1, [PROCESS], cf.OnReplicaFailureOtherReplicasContinue()),
        ],
        deployment=cf.GitRepo("git@github.com:clusterfudgeai/examples.git", "main", "abcd123"),
        cluster="primary",
        shard="rl",
        hostnames=["my-pet-node"],
        queueing_behaviour=cf.QueueingBehaviour(),
    )
    spec = spec_of(request)
    assert [role.name for role in spec.roles] == ["a-b", "c", "d"]
    assert [role.on_failure for role in spec.roles] == [
        FailureBehaviour.CONTINUE,
        FailureBehaviour.STOP,
        FailureBehaviour.CONTINUE,
    ]
    assert spec.roles[0].processes[0].command.argv == ("run.sh", "é 🎉")
    assert spec.roles[0].replica_resources == Resources(
        slots=8, slot_type="h200", cpus=4, memory_bytes=512 * 1024 * 1024
    )
    assert spec.code == Repository(
        url="git@github.com:clusterfudgeai/examples.git", branch="main", commit="abcd123"
    )
    assert (spec.target.cluster, spec.target.shard, spec.target.hostnames) == (
        "primary",
        "rl",
        ("my-pet-node",),
    )
    assert spec.queueing is Queueing.WAIT


@pytest.mark.parametrize("behaviour", [None, cf.QueueingBehaviour(False), cf.QueueingBehaviour(None)])
def test_a_launch_queues_only_where_it_says_so(behaviour: cf.QueueingBehaviour | None) -> None:
    """C10: otherwise it fails at once."""
    spec = spec_of(cf.CreateLaunchRequest([JOB], queueing_behaviour=behaviour))
    assert spec.queueing is Queueing.FAIL_IF_BUSY


def test_the_script_goes_along_for_the_record(tmp_path: Path) -> None:
    """C1: the file that made the request, unless it is huge; a notebook has none."""
    script = tmp_path / "launch.py"
    script.write_text("import clusterfudge  # 🎉\n", encoding="utf-8")
    form = request_form(cf.CreateLaunchRequest([JOB]), script=str(script))
    assert (form["launch_script"], form["launch_script_body"]) == (
        "launch.py",
        script.read_text(encoding="utf-8"),
    )
    script.write_text("#" * 200_000)
    form = request_form(cf.CreateLaunchRequest([JOB]), script=str(script))
    assert "launch_script_body" not in form
    assert "launch_script" not in request_form(cf.CreateLaunchRequest([JOB]), script="<stdin>")


@pytest.mark.parametrize("mark", [".git", "pyproject.toml", "requirements.txt"])
def test_local_dir_is_the_project_around_the_current_directory(
    mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """C7: the nearest top of a project, said on stdout; all of it goes along."""
    (tmp_path / mark).mkdir()
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    spec = spec_of(cf.CreateLaunchRequest([JOB], deployment=cf.LocalDir()))
    assert spec.code == LocalDirectory(path=str(tmp_path), whole=True, limit_bytes=LARGEST_PROJECT_BYTES)
    assert capsys.readouterr().out == f"Found {tmp_path / mark}\n"


def test_no_project_is_an_error_of_the_documented_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C7: nothing of a whole disk is sent by accident."""
    monkeypatch.chdir(tmp_path)
    if any((above / mark).exists() for above in tmp_path.parents for mark in form.MARKS):
        pytest.skip("the temporary directory lies in a project")
    with pytest.raises(ValueError, match="Could not find a project root"):
        spec_of(cf.CreateLaunchRequest([JOB], deployment=cf.LocalDir()))


def test_a_project_that_is_too_large_is_refused_with_what_is_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C7: 50 MB packed; a large file that packs well passes."""
    (tmp_path / "requirements.txt").touch()
    monkeypatch.chdir(tmp_path)
    with (tmp_path / "zeros").open("wb") as file:
        file.truncate(60 * 1024 * 1024)
    request = cf.CreateLaunchRequest([JOB], deployment=cf.LocalDir())
    assert isinstance(spec_of(request).code, LocalDirectory)
    with pytest.raises(
        ValueError, match=r"project directory .* is too large .*Maximum size is 50MB"
    ) as caught:
        form.refuse_if_too_large(str(tmp_path), limit_bytes=1000)
    assert "zeros (60.0MB)" in str(caught.value)


def test_first_versions_are_understood() -> None:
    """C1: a deployment on the job."""
    repo = cf.GitRepo("https://github.com/a/b", "main")
    spec = spec_of(cf.CreateLaunchRequest([cf.Job("a", 1, [PROCESS], deployment=repo)]))
    assert spec.code == Repository(url="https://github.com/a/b", branch="main")
    two = [cf.Job("a", 1, [PROCESS], deployment=repo), cf.Job("b", 1, [PROCESS], deployment=cf.LocalDir())]
    with pytest.raises(ValueError, match="one deployment"):
        spec_of(cf.CreateLaunchRequest(two))


def test_what_there_is_not_says_so() -> None:
    """C1: sandboxes, workstations and the beta."""
    client = cf.Client(api_key="any")
    with pytest.raises(cf.UnsupportedError, match="no sandboxes"):
        cf.SandboxClient("id", client)
    with pytest.raises(cf.UnsupportedError, match="workstation"):
        client.launch_workstation()
    with pytest.raises(cf.UnsupportedError, match="squeue"):
        client.beta.list_slurm_jobs()
    call: Any = client.create_sandbox(cf.SandboxParams())
    with pytest.raises(cf.UnsupportedError, match="no sandboxes"):
        call.send(None)
    assert not hasattr(client, "anything_else")


def test_errors_are_what_scripts_expect_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    """C10: SchedulingError has its log, AuthenticationError its words."""
    error = cf.SchedulingError("no room", "h1: full")
    assert (error.message, error.scheduling_log, str(error)) == ("no room", "h1: full", "no room")
    error.prettyprint()
    assert capsys.readouterr().out == (
        "\nno room\n\nScheduling log:\n---------------\nh1: full\n---------------\n"
    )
    told = str(cf.AuthenticationError(None, details="no token"))
    assert "Authentication failed. Please refresh your credentials with 'fudge login'." in told
    assert "no token" in told


@pytest.mark.parametrize(
    "text", ["\x00", "\x7f", "\x85", "\u2028", "\ufeff", "🎉", "\ud800", "\x9b", "a\tb\\\"'"]
)
def test_any_text_survives_the_way_to_the_server(text: str) -> None:
    """C2: JSON that YAML reads as the same; what no process can be given is refused by the server."""
    request = cf.CreateLaunchRequest([cf.Job("a", 1, [cf.Process(["echo", text])])])
    if text in ("\x00", "\ud800"):
        with pytest.raises(InvalidInput, match=r"NUL|half of a surrogate"):
            spec_of(request)
        return
    assert json.loads(json_text([text])) == [text]
    assert spec_of(request).roles[0].processes[0].command.argv == ("echo", text)
