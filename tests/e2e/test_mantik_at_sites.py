"""Configurations of Mantik on a real Slurm of two nodes, reached by its commands, firecREST and UNICORE."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from mantik_sites import DOCUMENTED, LOGINS, PLACES, Place, make_home, mantik_slurm, of_workers, scontrol
from shell import Shell
from slurm_clusters import Missing
from trainings import EXAMPLE, HELD, TRAINING_S, position

pytestmark = [pytest.mark.real_engine, pytest.mark.xdist_group("mantik-sites"), pytest.mark.timeout(900)]

DOCUMENT = Path(__file__).parents[1] / "golden/dialects/mantik/good/document-example.yaml"
TRAINING = """
name: digits
entry_points:
  main:
    parameters: {epochs: {type: float, default: 4}}
    command: "NODE_RANK=${{SLURM_PROCID}} EPOCHS={epochs} python3 held.py"
"""
IMAGE_BYTES = 10 << 20
HOOKS = f"""
{DOCUMENTED}
Environment:
  PreRunCommandOnLoginNode: [echo 1 >> order, echo login before]
  PreRunCommandOnComputeNode: [echo 2 >> order, export FROM_BEFORE=yes]
  PostRunCommandOnComputeNode: [echo 4 >> order]
  PostRunCommandOnLoginNode: [echo 5 >> order, cat order, echo login after]
Resources: {{Queue: batch}}
"""
HOOKED = 'entry_points: {main: {command: "echo $FROM_BEFORE; echo 3 >> order; echo result > result.txt"}}'
SHOW_JOB = 'entry_points: {main: {command: "scontrol show job -d ${{SLURM_JOB_ID}}"}}'
REQUESTS = {
    "everything": (
        "Nodes: 2, CPUsPerNode: 2, GPUsPerNode: 2, MemoryPerNode: 200MiB, Runtime: 5m, "
        "Reservation: course, NodeConstraints: fast, QoS: normal",
        (
            "Reservation=course",
            "QOS=normal",
            "Features=fast",
            "NumNodes=2 NumCPUs=4 NumTasks=2 CPUs/Task=2",
            "gres/gpu=4",
            "MinMemoryNode=200M",
            "Account=proj",
        ),
    ),
    "total": ("Nodes: 2, TotalCPUs: 4", ("NumTasks=4",)),
}


@pytest.fixture
def reservation(slurm: dict[str, str]) -> Iterator[str]:
    """Both nodes, for the user alone."""
    whose = ("reservationname=course", f"users={getpass.getuser()}", "nodes=ALL")
    scontrol(slurm, "create", "reservation", *whose, "starttime=now", "duration=120", "flags=ignore_jobs")
    yield "course"
    scontrol(slurm, "delete", "reservationname=course")


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    try:
        home = make_home(tmp_path_factory.mktemp("home"))
        with mantik_slurm(tmp_path_factory.mktemp("cluster") / "slurm", home) as variables:
            yield variables
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture(params=PLACES)
def site(
    request: pytest.FixtureRequest,
    shell: Shell,
    slurm: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Place]:
    """That Slurm as a cluster of the user."""
    for name, value in {**slurm, **LOGINS}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("TMPDIR", raising=False)
    with ExitStack() as closing:
        yield PLACES[request.param](shell, slurm, tmp_path / "shared", closing)
        shell.close()


def test_a_training_in_an_image_is_paused_resumed_and_fetched(shell: Shell, site: Place) -> None:
    """K2, K10: the document's first example trains on two nodes; its image goes to the site once."""
    for name in ("train.py", "model.py"):
        shell.write(name, (EXAMPLE / name).read_text())
    shell.write("held.py", HELD)
    shell.write("MLproject", TRAINING)
    shell.write("backend.yaml", site.config(DOCUMENT.read_text()))
    for name in ("image.sif", "another-image.sif"):
        (shell.directory / name).write_bytes(os.urandom(IMAGE_BYTES))
    shell.tarmac("check", "backend.yaml", code=0)
    follower = shell.start("run", "backend.yaml", *site.options, "-P", "epochs=4")
    assert follower.stdout is not None
    assert any("epoch  2 " in line for line in follower.stdout), shell.tarmac("show", "digits").stdout
    shell.tarmac("pause", "digits", "--wait", code=0)
    shell.write("train.py", (EXAMPLE / "train.py").read_text() + "# changed\n")
    shell.tarmac("run", "backend.yaml", *site.options, "--name", "other", "--detach", code=0)
    shell.tarmac("resume", "digits", code=0)
    rest, errors = follower.communicate(timeout=TRAINING_S)
    assert follower.returncode == 0, errors
    assert position("paused at", rest) == position("resumed at", rest)
    attempts = shell.json("show", "digits")["attempts"]
    assert [(attempt["outcome"], len(attempt["nodes"])) for attempt in attempts] == [
        ("paused", 2),
        ("completed", 2),
    ]
    log = of_workers(shell.tarmac("logs", "digits", "--attempt", "2", code=0).stdout)
    started = re.findall(r"apptainer run --nv image.sif .* on (n[12]) in task ([01]), (\d+) bytes", log)
    assert sorted(started) == [("n1", "0", str(IMAGE_BYTES)), ("n2", "1", str(IMAGE_BYTES))]
    shell.tarmac("artifacts", "get", "digits", "-o", "fetched", code=0)
    assert list((shell.directory / "fetched").rglob("state.pt"))
    listed = {each["name"] for each in shell.json("files", "digits")["files"]}
    assert {"image.sif", "held.py"} <= listed
    assert "another-image.sif" not in listed
    shell.tarmac("pause", "other", "--wait", code=0)
    sizes = [path.stat().st_size for path in (site.directory / "code/packs").iterdir()]
    assert sum(size >= IMAGE_BYTES for size in sizes) == 1
    assert sum(path.stat().st_size for path in site.directory.glob("packed/*/*")) < IMAGE_BYTES
    shell.tarmac("stop", "other", "--wait", code=0)


def test_commands_run_in_their_order_and_what_they_print_is_in_the_setup_log(
    shell: Shell, site: Place
) -> None:
    """K6, K10."""
    order = shell.directory.parent / "order"
    shell.write("MLproject", HOOKED.replace("order", str(order)))
    text = site.config(HOOKS).replace("order", str(order))
    if not site.has_login_node:
        refused = shell.tarmac("check", shell.write("hooks.yaml", text), code=2).stderr
        assert refused.count("firecREST runs nothing on the login node") == 2
        text = re.sub(r"(?m)^  P\w+OnLoginNode: .*\n", "", text)
    result = shell.tarmac("run", shell.write("hooks.yaml", text), *site.options, "--name", "hooked", code=0)
    assert "yes" in of_workers(result.stdout).splitlines()
    shell.tarmac("files", "hooked", "result.txt", "-o", "fetched", code=0)
    assert (shell.directory / "fetched").read_text() == "result\n"
    shell.until("show", "hooked", said="completed")
    if site.has_login_node:
        shell.until("logs", "hooked", "--role", "setup", said="login after\n")
        setup = of_workers(shell.tarmac("logs", "hooked", "--role", "setup", code=0).stdout).splitlines()
        said = [line for line in setup if not line.startswith("+")]
        assert said[-7:] == ["login before", *"12345", "login after"]
    assert "".join(order.read_text().split()) == ("12345" if site.has_login_node else "234")


@pytest.mark.parametrize("name", REQUESTS)
def test_the_request_reaches_the_job(
    shell: Shell, site: Place, request: pytest.FixtureRequest, name: str
) -> None:
    """K7."""
    resources, expected = REQUESTS[name]
    if "Reservation" in resources:
        request.getfixturevalue("reservation")
    shell.write("MLproject", SHOW_JOB)
    text = site.config(f"{DOCUMENTED}\nResources: {{Queue: batch, {resources}}}\n")
    result = shell.tarmac("run", shell.write("request.yaml", text), *site.options, code=0)
    assert [part for part in expected if part not in result.stdout] == [], result.stdout


def test_the_account_of_the_shell_is_that_of_the_job(
    shell: Shell, site: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K10: Mantik's variable wins over the account of the cluster."""
    monkeypatch.setenv("MANTIK_COMPUTE_BUDGET_ACCOUNT", "other")
    shell.write("MLproject", SHOW_JOB)
    config = shell.write("a.yaml", site.config(f"{DOCUMENTED}\nResources: {{Queue: batch}}\n"))
    shown = shell.tarmac("run", config, *site.options, "--dry-run", code=0).stdout
    assert "#SBATCH --account=other\n" in shown
    elsewhere = shell.write("b.yaml", "UnicoreApiUrl: https://a.b/rest/core\nResources: {Queue: batch}\n")
    assert '"Project": "other"' in shell.tarmac("run", elsewhere, "--dry-run", code=0).stdout
    monkeypatch.setenv("MANTIK_COMPUTE_BUDGET_ACCOUNT", "no\nname")
    assert "MANTIK_COMPUTE_BUDGET_ACCOUNT of your shell" in shell.tarmac("run", config, code=2).stderr
