"""The private view of the disk: documented literal paths hold inside an attempt, and nowhere else (I14)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from attempts import Warm, copy_of_node, python_worker, warm_parent, worker, write_attempt

ALLOWED = "from tarmac.node.kernel import mounts; mounts.enter_own_view()"


def _is_allowed(*prefix: str) -> bool:
    command = [*prefix, sys.executable, "-c", ALLOWED]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


private_view = pytest.mark.skipif(
    not (_is_allowed() and Path("/mnt").is_dir()),
    reason="this machine gives no mount namespaces, or has no /mnt",
)


@private_view
def test_the_literal_paths_lead_to_the_artifact_directories(warm: Warm, tmp_path: Path) -> None:
    """I14: variables and mount points."""
    before = names_in("/mnt")
    script = """
echo $CHECKPOINT_ARTIFACT_PATH $OUTPUT_PATH $CRUD_ARTIFACT_PATH $LOSSY_ARTIFACT_PATH
for name in checkpoints crud lossy; do echo $name > /mnt/$name/file; done
touch /mnt/stray 2>&1
ls /mnt
"""
    attempt = write_attempt(tmp_path, [worker(script)])
    warm.run(attempt)
    lines = attempt.log().splitlines()
    assert lines[0] == "/mnt/checkpoints /mnt/checkpoints /mnt/crud /mnt/lossy"
    assert "Read-only file system" in lines[1]
    assert lines[2:] == sorted({*before, "checkpoints", "crud", "lossy"})
    for kind, name in (("checkpoint", "checkpoints"), ("crud", "crud"), ("lossy", "lossy")):
        assert Path(attempt.artifacts[kind], "file").read_text() == f"{name}\n"
    assert names_in("/mnt") == before, "nobody else sees anything"


@private_view
def test_what_lies_beside_a_literal_path_stays_visible(warm: Warm, tmp_path: Path) -> None:
    place = tmp_path / "place"
    (place / "dir").mkdir(parents=True)
    (place / "dir/file").write_text("kept\n")
    (place / "file").write_text("kept too\n")
    (place / "link").symlink_to("dir")
    parameters = tmp_path / "parameters.yaml"
    parameters.write_text("lr: 0.1\n")
    script = f"cd {place}; ls; cat link/file file config/parameters.yaml; echo more >> dir/file"
    attempt = write_attempt(
        tmp_path,
        [worker(script)],
        mounts=[{"source": str(parameters), "target": f"{place}/config/parameters.yaml"}],
    )
    warm.run(attempt)
    assert attempt.log().split() == ["config", "dir", "file", "link", "kept", "kept", "too", "lr:", "0.1"]
    assert (place / "dir/file").read_text() == "kept\nmore\n"
    assert not (place / "config").exists()


@private_view
@private_view
def test_the_working_directory_can_have_a_literal_path(warm: Warm, tmp_path: Path) -> None:
    """M8: what is written there lies in the working directory, and the other way round."""
    target = "/mnt/work-of-a-run"
    mount = {"source": ".", "target": target, "read_only": False, "variables": []}
    attempt = write_attempt(
        tmp_path,
        [worker(f"echo a > here; cat {target}/here; cd {target}; echo b > there; ls")],
        mounts=[mount],
    )
    warm.run(attempt)
    assert attempt.log().split() == ["a", "here", "there"]
    assert not Path(target).exists()


@pytest.mark.skipif(Path("/data").exists(), reason="this machine has a /data of its own")
def test_a_path_at_the_root_of_the_disk_holds_and_is_read_only(warm: Warm, tmp_path: Path) -> None:
    """I8: `/data/<id>` can be read and not changed, where there is no /data; nothing else is missing."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "sample").write_text("one\n")
    script = """
cat /data/set/sample "$SET/sample"
echo more 2>&1 > /data/set/sample || echo refused
touch /data/beside /beside 2>&1 | grep -c Read-only
ls / | grep -v -x data | tr '\n' ' '
echo; echo $(head -c 3 /proc/self/status) > /dev/null && test -d /sys/kernel && pwd
echo kept > "$CHECKPOINT_ARTIFACT_PATH/kept"
"""
    mount = {"source": str(source), "target": "/data/set", "read_only": True, "variables": ["SET"]}
    attempt = write_attempt(tmp_path, [worker(script)], mounts=[mount])
    assert warm.run(attempt)["outcome"] == "completed"
    lines = [line for line in attempt.log().splitlines() if "bash" not in line]
    assert lines[:4] == ["one", "one", "refused", "2"]
    assert lines[4].split() == [name for name in names_in("/") if not name.startswith(".")]
    assert lines[5] == attempt.node().work
    assert Path(attempt.artifacts["checkpoint"], "kept").read_text() == "kept\n"
    assert (source / "sample").read_text() == "one\n"
    assert not Path("/data").exists(), "nobody else sees anything"


@private_view
@pytest.mark.skipif(Path("/data").exists(), reason="this machine has a /data of its own")
def test_a_dataset_is_at_data_itself_and_below_its_id_and_is_read_only(warm: Warm, tmp_path: Path) -> None:
    """I8: files of the retired form read /data; others of the same run read /data/ID."""
    source = tmp_path / "source"
    (source / "train").mkdir(parents=True)
    (source / "train/sample").write_text("one\n")
    (source / "latest").symlink_to("train")
    script = """
cat /data/train/sample /data/latest/sample /data/set/train/sample "$SET/train/sample"
ls /data | tr '\n' ' '; echo
for place in /data/new /data/train/sample /data/set/new /data/set/train/sample; do
  echo more 2>&1 > $place || echo refused
done
"""
    mounts = [
        {"source": str(source), "target": "/data", "read_only": True, "variables": []},
        {"source": str(source), "target": "/data/set", "read_only": True, "variables": ["SET"]},
    ]
    attempt = write_attempt(tmp_path, [worker(script)], mounts=mounts)
    assert warm.run(attempt)["outcome"] == "completed"
    lines = [line.strip() for line in attempt.log().splitlines() if "bash" not in line]
    assert lines == ["one"] * 4 + ["latest set train"] + ["refused"] * 4
    assert (source / "train/sample").read_text() == "one\n"


@private_view
def test_two_attempts_at_once_see_each_its_own(warm: Warm, tmp_path: Path) -> None:
    script = "echo mine > /mnt/crud/$ME; while ! [ -e go ]; do sleep 0.01; done; ls /mnt/crud"
    attempts = [write_attempt(tmp_path, [worker(script, env={"ME": str(number)})]) for number in range(2)]
    for attempt in attempts:
        warm.start(attempt)
    for attempt in attempts:
        attempt.wait_for("running")
    for attempt in attempts:
        (Path(attempt.node().work) / "go").touch()
        attempt.ended()
    assert [attempt.log() for attempt in attempts] == ["0\n", "1\n"]


@pytest.mark.parametrize("target", ["/mnt/none", "data/none"])
def test_a_bind_without_its_source_fails_before_the_workers_start(
    warm: Warm, tmp_path: Path, target: str
) -> None:
    source = str(tmp_path / "none")
    attempt = write_attempt(tmp_path, [worker("exit 0")], mounts=[{"source": source, "target": target}])
    end = warm.run(attempt)
    assert (end["outcome"], end["cause"]["code"]) == ("failed", "setup_failed")
    assert end["cause"]["message"] == (f"cannot bind {source} to {target} on n0: no such file or directory")
    assert not [event for event in attempt.events() if event["kind"] == "worker_started"]


def test_a_source_that_cannot_be_reached_is_named_with_the_reason(warm: Warm, tmp_path: Path) -> None:
    source = str(tmp_path / "file" / "none")
    (tmp_path / "file").touch()
    attempt = write_attempt(tmp_path, [worker("exit 0")], mounts=[{"source": source, "target": "/mnt/none"}])
    message = warm.run(attempt)["cause"]["message"]
    assert message == f"cannot bind {source} to /mnt/none on n0: not a directory"


@pytest.mark.parametrize(
    ("target", "variables", "clause"),
    [
        ("/mnt/none", [], ""),
        ("/mnt/none", ["NONE", "NOTHING"], "; NONE, NOTHING: the real place"),
        ("data/none", [], ""),
    ],
)
def test_a_rehearsal_goes_on_without_a_source_and_names_only_variables_that_are_set(
    warm: Warm, tmp_path: Path, target: str, variables: list[str], clause: str
) -> None:
    source = str(tmp_path / "none")
    mount = {"source": source, "target": target, "variables": variables}
    attempt = write_attempt(tmp_path, [worker('echo "$NONE"')], mounts=[mount], rehearsal=True)
    assert warm.run(attempt)["outcome"] == "completed"
    notices = [event["text"] for event in attempt.events() if event["kind"] == "notice"]
    assert notices == [f"not available here: {target} ({source}: no such file or directory){clause}"]
    assert attempt.log() == (f"{source}\n" if variables else "\n")


def test_where_it_is_not_allowed_the_variables_name_the_real_places(tmp_path: Path) -> None:
    """A process that may make no namespaces at all: the run goes on, and is told."""
    limit = Path("/proc/sys/user/max_mnt_namespaces")
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0 or setpriv is None or not limit.exists():
        pytest.skip("needs root and setpriv to take the right away")
    drop = [setpriv, "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
    source = "import os; print(os.environ['CHECKPOINT_ARTIFACT_PATH'])"
    with warm_parent(prefix=drop) as warm:
        attempt = write_attempt(tmp_path, [python_worker(source)])
        warm.run(attempt)
    told = [event["text"] for event in attempt.events() if event["kind"] == "notice"]
    if _is_allowed(*drop):
        assert attempt.log() == "/mnt/checkpoints\n", "a user namespace made up for it"
    else:
        assert attempt.log() == f"{attempt.told['artifacts']['checkpoint']}\n"
        assert "/mnt/checkpoints, /mnt/crud, /mnt/lossy" in told[0]


@private_view
def test_a_user_without_rights_has_it_too_by_a_namespace_of_its_own(everybodys_path: Path) -> None:
    setpriv = shutil.which("setpriv")
    python = "/usr/bin/python3"
    if os.geteuid() != 0 or setpriv is None or not Path(python).exists():
        pytest.skip("needs root and setpriv to become somebody else, and an interpreter for everybody")
    nobody = [setpriv, "--reuid=65534", "--regid=65534", "--clear-groups"]
    package = copy_of_node(everybodys_path)
    with warm_parent(python, prefix=nobody, package=package) as warm:
        attempt = write_attempt(
            everybodys_path, [worker("id -u; echo a > $CRUD_ARTIFACT_PATH/f; ls /mnt")], sdk=None
        )
        for path in (attempt.path, attempt.path / "logs", attempt.path / "news"):
            os.chown(path, 65534, 65534)
        warm.run(attempt)
    lines = attempt.log().splitlines()
    assert lines[0] == "65534", "it is still itself"
    made_up = not [event for event in attempt.events() if event["kind"] == "notice"]
    assert ("crud" in lines) == made_up
    assert Path(attempt.artifacts["crud"], "f").read_text() == "a\n"


@pytest.fixture
def everybodys_path() -> Iterator[Path]:
    """A directory that other users may enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        Path(directory).chmod(0o777)
        yield Path(directory)


def names_in(directory: str) -> list[str]:
    return sorted(path.name for path in Path(directory).iterdir())
