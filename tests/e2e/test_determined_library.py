"""Determined's training library, as PyPI has it, inside runs: three releases (`make determined`).

Nothing is installed beforehand: the runs' Python is that of the tests, which has PyTorch, and the setup step
brings the release that the server's settings name.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from determined_scripts import BY_WORKERS, METRICS, OPERATIONS, TRIAL, config, script
from shell import LIMIT_S, Shell

ENVIRONMENTS = Path(__file__).resolve().parents[2] / ".venv-determined"
"""What `make determined` makes: these tests bring packages from PyPI, and take their time."""

RELEASES = ("0.38.1", "0.34.0", "0.23.4")
TORCH = "python3 -m determined.launch.torch_distributed"
SEARCH = (
    "{name: adaptive_asha, metric: x, smaller_is_better: false, max_trials: 4, max_concurrent_trials: 1, "
)
PROMOTING = SEARCH + "mode: aggressive, divisor: 2, max_rungs: 2, max_length: {batches: 40}}"
STOPPING = SEARCH + "mode: aggressive, divisor: 2, max_rungs: 2, max_time: 40, time_metric: batches, "
STOPPING += "max_length: {batches: 40}}"  # which trial classes of 0.38 go by
RATES = "{rate: {type: double, minval: 0.1, maxval: 0.5}, global_batch_size: 8}"

WORKER = """\
import os, sys
import determined

if len(sys.argv) > 1:
    sys.exit(int(sys.argv[1]) if os.environ.get("RANK", "1") == "1" else 0)
print(os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "with", determined.__name__, flush=True)
"""
LINES = """\
launch="python3 -m determined.launch"
for name in torch_distributed deepspeed horovod autohorovod; do $launch.$name -h; done
$launch.torch_distributed --max_restarts=0 -- python3 worker.py; echo "overridden: $?"
$launch.wrap_rank 7 echo wrapped
N_PROC=1 env nice $launch.autohorovod -- python3 worker.py 3; echo "nested: $?"
$launch.torch_distributed python3 worker.py 5; code=$?; echo "failed: $code"
exit $code
"""

pytestmark = [pytest.mark.real_engine, pytest.mark.torch, pytest.mark.timeout(6 * LIMIT_S)]


class Library:
    """A user of one release, with a server of two nodes of two slots that has the gateway."""

    def __init__(self, shell: Shell, release: str) -> None:
        self.shell, self.release = shell, release
        self._count = 0

    @property
    def has_operations(self) -> bool:
        return self.release != "0.38.1"

    def run(self, text: str, **files: str) -> str:
        """Start a run of one trial in a directory of its own; its id."""
        return str(self.shell.json("run", self._written(text, files), "--detach")["id"])

    def search(self, text: str, **files: str) -> str:
        """Create an experiment that searches; its id."""
        path = self._written(text, files)
        return str(self.shell.json("experiment", "create", path, str(Path(path).parent))["id"])

    def ended(self, run: str, outcome: str = "completed") -> str:
        """Wait for the end of a run, of the first one with the release installed; all that it wrote."""
        self.shell.tarmac("wait", run, limit_s=3 * LIMIT_S)
        found = self.shell.json("show", run)["run"]
        log = self.shell.tarmac("logs", run).stdout
        assert found["outcome"] == outcome, (found["cause"], log)
        return log

    def metrics(self, run: str) -> dict[tuple[str, str], tuple[int, float]]:
        """Of each metric how often it was reported, and the last value."""
        found = self.shell.json("metrics", run)["metrics"]
        return {(each["group"], each["name"]): (each["count"], each["last"]) for each in found}

    def trials(self, experiment: str) -> list[dict[str, Any]]:
        return list(self.shell.json("experiment", "trials", experiment))

    def until(self, experiment: str, state: str) -> dict[str, Any]:
        deadline = time.monotonic() + 3 * LIMIT_S
        while (found := self.shell.json("experiment", "show", experiment))["state"] != state:
            assert time.monotonic() < deadline, found
        return dict(found)

    def _written(self, text: str, files: dict[str, str]) -> str:
        self._count += 1
        place = f"context{self._count}"
        for name, content in files.items():
            self.shell.write(f"{place}/{name}" if "." in name else f"{place}/{name}.py", content)
        return self.shell.write(f"{place}/config.yaml", text)


@pytest.fixture(scope="module", params=RELEASES)
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    if importlib.util.find_spec("torch") is None or not (ENVIRONMENTS / request.param).exists():
        pytest.skip("PyTorch, or the package `determined`, was not asked for: make determined")
    root = tmp_path_factory.mktemp("library")
    shell = Shell(root / "home", root / "project")
    shell.directory.mkdir()
    shell.home.mkdir(mode=0o700)
    (root / ".cache").symlink_to(Path.home() / ".cache")  # of pip: the releases bring half a hundred packages
    with socket.create_server(("127.0.0.1", 0)) as found:
        address = f"127.0.0.1:{found.getsockname()[1]}"
    (shell.home / "settings.toml").write_text(
        f'[determined]\nlisten = "{address}"\nlibrary = "{request.param}"\n[[local]]\nnodes = 2\nslots = 2\n'
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(root))
        patch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        try:
            yield Library(shell, request.param)
        finally:
            shell.close()


def core_script(library: Library, *, pause_s: float = 0.01) -> str:
    return script(OPERATIONS if library.has_operations else METRICS, pause_s=pause_s)


def trial_class(library: Library, *, pause_s: float = 0.01) -> str:
    return script(TRIAL, pause_s=pause_s, **({"loading": BY_WORKERS} if library.release == "0.23.4" else {}))


def test_the_core_api_reports_saves_pauses_and_goes_on(library: Library) -> None:
    """D12: metrics, progress and checkpoints; a pause that the script sees, and the step it goes on at."""
    run = library.run(config("python3 train.py"), train=core_script(library, pause_s=0.5))
    library.shell.until("logs", run, said="rank 0 of 1")
    library.shell.until("metrics", run, "--json", said='"x"')
    library.shell.tarmac("pause", run, "--wait", code=0)
    [left] = [line for line in library.shell.tarmac("logs", run).stdout.splitlines() if "leaves at" in line]
    library.shell.tarmac("resume", run, code=0)
    log = library.ended(run)
    assert f"goes on at step {left.rpartition(' ')[2]}" in log
    assert library.metrics(run)["training", "x"] == (8, 10.0)
    assert library.metrics(run)["validation", "x"][1] == 10.0
    [trial] = {line.rpartition(" ")[2] for line in log.splitlines() if "rank 0 of 1 trial" in line}
    source = f"{{name: single, metric: x, max_length: {{batches: 40}}, source_trial_id: {trial}}}"
    later = library.run(config("python3 train.py", searcher=source), train=core_script(library))
    assert "goes on at step 40" in library.ended(later)


def test_the_lines_of_the_document(library: Library) -> None:
    """D2-D8: as printed, with the package; the same without it stand in `test_determined_launchers`."""
    run = library.run(config("bash lines.sh", slots=2), worker=WORKER, **{"lines.sh": LINES})
    said = library.ended(run, "failed")
    for launcher in ("torch_distributed", "deepspeed", "horovod", "autohorovod"):
        assert f"usage: python3 -m determined.launch.{launcher} " in said
    for line in ("[rank=0] 0 of 2 with determined", "[rank=1] 1 of 2 with determined", "[rank=7] wrapped"):
        assert line in said
    for line in ("overridden: 0", "nested: 3", "failed: 5"):
        assert line in said


def test_the_core_api_on_two_nodes(library: Library) -> None:
    """D3: what its workers gather and report is of all four."""
    run = library.run(config(f"{TORCH} python3 train.py torch", slots=4), train=core_script(library))
    log = library.ended(run)
    assert all(f"[rank={rank}] rank {rank} of 4" in log for rank in range(4))
    assert library.metrics(run)["training", "x"] == (8, 40.0)


@pytest.mark.parametrize(
    ("entrypoint", "slots"),
    [("model_def:Line", 1), ("model_def:Line", 2), (f"{TORCH} --trial model_def:Line", 4)],
)
def test_a_trial_class(library: Library, entrypoint: str, slots: int) -> None:
    """D3, D7: alone, on all slots of a node by itself, and on two nodes."""
    run = library.run(config(entrypoint, slots=slots), model_def=trial_class(library))
    library.ended(run)
    found = library.metrics(run)
    assert found["training", "loss"][1] < 0.1
    assert found["validation", "x"][0] == 8


@pytest.mark.parametrize("trial", [False, True])
def test_a_search_survives_pauses_and_the_death_of_its_server(library: Library, trial: bool) -> None:
    """D10, D12: the same trials with the same ends as without; some leave early."""
    entrypoint, name = ("model_def:Line", "model_def") if trial else ("python3 train.py", "train")
    code = trial_class(library, pause_s=0.03) if trial else core_script(library, pause_s=0.03)
    text = config(
        entrypoint,
        hyperparameters=RATES,
        searcher=PROMOTING if library.has_operations else STOPPING,
        reproducibility="{experiment_seed: 7}",
    )
    quiet = library.search(text, **{name: code})
    assert library.until(quiet, "ended")["outcome"] == "completed"
    disturbed = library.search(text, **{name: code})
    for _ in range(2):
        library.shell.until("experiment", "trials", disturbed, "--json", said='"running"')
        library.shell.tarmac("experiment", "pause", disturbed, code=0)
        library.shell.until("experiment", "trials", disturbed, "--json", said='"paused"')
        library.shell.tarmac("experiment", "activate", disturbed, code=0)
        os.kill(library.shell.json("server", "status")["pid"], signal.SIGKILL)
    assert library.until(disturbed, "ended")["outcome"] == "completed"
    compared = [
        [(each["number"], each["parameters"], each["end"], each["best"], each["at"]) for each in found]
        for found in (library.trials(quiet), library.trials(disturbed))
    ]
    assert compared[0] == compared[1]
    lengths = [each["at"] for each in library.trials(quiet)]
    assert min(lengths) < max(lengths)
    assert set(lengths) == {20, 40} or not library.has_operations
