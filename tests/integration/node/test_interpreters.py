"""What travels: the same runner and sidecar on every interpreter installed here, where tarmac is not."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from attempts import AttemptDirectory, copy_of_node, warm_parent, worker, write_attempt
from tarmac.artifacts.remote import open_blobs
from tarmac.artifacts.versions.blobs import begin_store
from tarmac.engines.hosts import installing
from tarmac.engines.hosts.connection import Connection
from tarmac.engines.hosts.installing import Sidecar, Supplies
from tarmac.node.files import staging
from tarmac.node.starting import NODE_DIRECTORY, Installation

VERSIONS = ("3.9", "3.11", "3.13")
PYENV = Path.home() / ".pyenv/versions"


def interpreter(version: str) -> str:
    """The path of an interpreter of this version; skips the test where there is none."""
    places = [*sorted(PYENV.glob(f"{version}.*/bin/python")), shutil.which(f"python{version}")]
    for place in filter(None, places):
        command = [str(place), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        if told.stdout.strip() == version:
            return str(place)
    pytest.skip(f"Python {version} is not installed here")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_copied_runner_works(version: str, tmp_path: Path) -> None:
    python = interpreter(version)
    package = copy_of_node(tmp_path / "copy")
    source = "import tarmac, sys; tarmac.report(step=1); print(sys.version_info[:2], tarmac.should_pause())"
    script = f"{python} -c '{source}'"
    sdk = str(package / "shim")
    good = write_attempt(tmp_path, [worker(script)], setup=[["true"]], sdk=sdk)
    bad = write_attempt(tmp_path, {"n0": [worker("exit 7")], "n1": [worker("sleep 100", replica=1)]}, sdk=sdk)
    asked = write_attempt(tmp_path, [worker("echo ready; (setsid sleep 100 &) ; exec sleep 100")], sdk=sdk)
    with warm_parent(python, package=package) as warm:
        assert warm.run(good)["outcome"] == "completed"
        assert warm.run(bad)["cause"]["exit_code"] == 7
        warm.start(asked)
        asked.wait_for_line("ready")
        asked.ask("pause")
        assert asked.ended()["outcome"] == "paused"
    major, minor = version.split(".")
    assert good.log() == f"({major}, {minor}) False\n"
    assert Path(good.node().reports).exists()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_far_end_of_a_connection_comes_as_text_and_serves(version: str, tmp_path: Path) -> None:
    """Without ssh: a shell takes the command that ssh would give to the one of a host."""
    python = interpreter(version)
    connection = Connection(["sh", "-c"], python=python)
    about = connection.call("about", timeout_s=120, arguments={})
    assert about["python"].startswith(f"{version}.")
    arguments = {"directory": str(tmp_path / "made"), "files": {"a/b": b"\0\xff"}, "area": str(tmp_path)}
    assert connection.call("make_directory", timeout_s=120, arguments=arguments) is True
    assert (tmp_path / "made/a/b").read_bytes() == b"\0\xff"
    with pytest.raises(FileNotFoundError):
        connection.call("write", timeout_s=120, arguments={"path": str(tmp_path / "no/x"), "content": b""})
    connection.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_copied_sidecar_keeps_artifacts_and_places_them(version: str, tmp_path: Path) -> None:
    """As on a site: another attempt, on a disk of its own, is given what the first has kept."""
    python = interpreter(version)
    packages = [NODE_DIRECTORY, *(NODE_DIRECTORY.with_name(name) for name in ("artifacts", "model"))]
    staging.make_directory(str(tmp_path / "v1"), installing.collect(packages), staging=str(tmp_path))
    installed = Installation(python, str(tmp_path / "v1" / installing.RUNNER))
    begin_store(open_blobs(str(tmp_path / "store")))
    keeping = Sidecar(store=str(tmp_path / "store"), patience_s=5.0, packages=()).at(installed)

    def attempt(number: int, script: str) -> AttemptDirectory:
        kept = tmp_path / f"disk-{number}"
        return write_attempt(
            tmp_path,
            [worker(script)],
            number=number,
            artifacts=kept,
            node={"artifact_state": str(kept / "state.json"), "own_disk": True},
            sync={
                "command": list(keeping.command),
                "store": keeping.store,
                "every_s": dict.fromkeys(("checkpoint", "crud", "lossy", "log"), 600.0),
                "inputs": [],
            },
        )

    first = attempt(1, 'echo weights > "$CHECKPOINT_ARTIFACT_PATH/step-1"')
    second = attempt(2, 'cat "$CHECKPOINT_ARTIFACT_PATH/step-1"')
    with warm_parent(python, package=Path(installed.package)) as warm:
        assert warm.run(first)["outcome"] == "completed"
        assert first.wait_for("artifact")["id"] == "run.checkpoint.1", first.events()
        assert warm.run(second)["outcome"] == "completed", second.events()
    assert second.log() == "weights\n"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_copied_runner_has_the_launchers_of_determined(version: str, tmp_path: Path) -> None:
    """D2, where no tarmac is installed: they are where the start of a run looks, beside the runner."""
    python = interpreter(version)
    files = installing.collect(Supplies(copies=tmp_path).packages)
    staging.make_directory(str(tmp_path / "v1"), files, staging=str(tmp_path))
    sdk = Installation(python, str(tmp_path / "v1" / installing.RUNNER)).sdk
    result = subprocess.run(
        [python, "-W", "error", "-m", "determined.launch.torch_distributed", "--help"],
        env={"PYTHONPATH": f"{sdk}/../../systems/determined/standins", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("usage: python3 -m determined.launch.torch_distributed ")


@pytest.mark.parametrize("version", VERSIONS)
def test_every_module_loads(version: str, tmp_path: Path) -> None:
    """With warnings as errors: nothing here is deprecated or newer than the interpreter."""
    python = interpreter(version)
    root = copy_of_node(tmp_path).parents[1]
    names = sorted(
        ".".join(("tarmac", "node", *path.relative_to(NODE_DIRECTORY).with_suffix("").parts))
        for path in NODE_DIRECTORY.rglob("*.py")
        if "shim" not in path.parts and not path.name.startswith("__")
    )
    command = [python, "-W", "error", "-c", f"import {', '.join(names)}"]
    result = subprocess.run(
        command, cwd=root, env={"PYTHONDONTWRITEBYTECODE": "1"}, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
