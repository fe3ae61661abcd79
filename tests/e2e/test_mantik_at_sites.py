"""Configurations of Mantik on a real Slurm of two nodes, reached by its commands, firecREST and UNICORE."""

from __future__ import annotations

import getpass
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

import unicore_sites
from firecrest_calls import SYSTEM
from firecrest_far_side import FarSide
from firecrest_server import Client, Firecrest, serving
from shell import Shell
from slurm_clusters import Missing, running_slurm
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
APPTAINER = """#!/bin/bash
echo "apptainer $* on $SLURMD_NODENAME in task $SLURM_PROCID, $(stat -c %s image.sif) bytes" >&2
while [ "$1" != image.sif ]; do shift; done
shift
exec "$@"
"""
"""Runs what follows the image, as Apptainer would inside of it."""

IMAGE_BYTES = 10 << 20
UNICORE = "UnicoreApiUrl: https://zam2125.zam.kfa-juelich.de:9112/JUWELS/rest/core\n"
HOOKS = f"""
{UNICORE}Environment:
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


def scontrol(variables: dict[str, str], *arguments: str) -> None:
    """What an administrator does."""
    subprocess.run(["scontrol", *arguments], env={**os.environ, **variables}, check=True, timeout=60)


@pytest.fixture
def reservation(slurm: dict[str, str]) -> Iterator[str]:
    """Both nodes, for the user alone."""
    whose = ("reservationname=course", f"users={getpass.getuser()}", "nodes=ALL")
    scontrol(slurm, "create", "reservation", *whose, "starttime=now", "duration=120", "flags=ignore_jobs")
    yield "course"
    scontrol(slurm, "delete", "reservationname=course")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a user at the site, whose login shells find Apptainer and Python."""
    home = tmp_path_factory.mktemp("home")
    (home / "bin").mkdir()
    (home / "bin/apptainer").write_text(APPTAINER)
    (home / "bin/apptainer").chmod(0o755)
    programs = f"{home}/bin:{Path(sys.executable).parent}"
    (home / ".bash_profile").write_text(f'export PATH="{programs}:$PATH" GLOO_SOCKET_IFNAME=lo\n')
    return home


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Iterator[dict[str, str]]:
    """A Slurm of two nodes with GPUs and accounts, in whose jobs the home is that of the user."""
    try:
        directory = tmp_path_factory.mktemp("cluster") / "slurm"
        with running_slurm(directory, cpus_per_node=4, gpus="a100:2", accounting=True) as variables:
            scontrol(variables, "update", "nodename=n1,n2", "availablefeatures=fast", "activefeatures=fast")
            yield {**variables, "HOME": str(home)}
    except Missing as missing:
        pytest.skip(str(missing))


@dataclass(frozen=True)
class Place:
    """A cluster of a user: its directory, the options of a run for it, and its address in a configuration."""

    directory: Path
    options: tuple[str, ...] = ()
    address: str = UNICORE

    def config(self, text: str) -> str:
        """A configuration for the place: nothing but the address is different."""
        return text.replace(UNICORE, self.address)


Made = Callable[[Shell, dict[str, str], Path, ExitStack], Place]
COMMON = ("--set=partition=batch", "--set=account=proj", f"--set=python={sys.executable}")


def of_slurm(shell: Shell, slurm: dict[str, str], directory: Path, _closing: ExitStack) -> Place:
    """On the machine of the server: a file goes there only if the user says so."""
    shell.tarmac("clusters", "add", "site", "--engine=slurm", f"--set=directory={directory}", *COMMON, code=0)
    return Place(directory, ("--cluster", "site"))


def of_firecrest(shell: Shell, slurm: dict[str, str], directory: Path, closing: ExitStack) -> Place:
    """Behind a firecREST, with the login in Mantik's variables."""
    directory.mkdir()
    client = Client("secret of ada", FarSide("root", (), slurm))
    server = closing.enter_context(serving(Firecrest({"client of ada": client}, (str(directory),))))
    address = f"Firecrest:\n  ApiUrl: {server.url}/\n  TokenUrl: {server.token_url}\n  Machine: {SYSTEM}\n"
    where = (f"--url={server.url}", f"--token-url={server.token_url}", f"--system={SYSTEM}")
    more = ("--set=gpus_per_node=2", "--set=poll=1s", f"--set=directory={directory}/{{user}}")
    shell.tarmac("clusters", "add", "site", "--engine=firecrest", *where, *more, *COMMON, code=0)
    return Place(directory / getpass.getuser(), address=address)


def of_unicore(shell: Shell, slurm: dict[str, str], directory: Path, closing: ExitStack) -> Place:
    """Behind a UNICORE, with the login in Mantik's variables."""
    served = closing.enter_context(unicore_sites.serving(directory, **slurm))
    more = ("--set=gpus_per_node=2", "--set=poll=1s", f"--set=ca={served.ca}")
    more += (f"--set=directory={directory}/ada/tarmac",)
    shell.tarmac("clusters", "add", "site", "--engine=unicore", f"--url={served.url}", *more, *COMMON, code=0)
    return Place(
        directory / "ada/tarmac",
        address=f"UnicoreApiUrl: {served.url.removesuffix('/rest/core')}/rest/core\n",
    )


PLACES: dict[str, Made] = {"slurm": of_slurm, "firecrest": of_firecrest, "unicore": of_unicore}
LOGINS = {
    "MANTIK_UNICORE_USERNAME": "ada",
    "MANTIK_UNICORE_PASSWORD": "pass of ada",
    "MANTIK_FIRECREST_CLIENT_ID": "client of ada",
    "MANTIK_FIRECREST_CLIENT_SECRET": "secret of ada",
}


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


def of_workers(output: str) -> str:
    """The lines of a log without the names of workers."""
    return "\n".join(line.partition("| ")[2] or line for line in output.splitlines())


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
    if "Firecrest" in text:
        refused = shell.tarmac("check", shell.write("hooks.yaml", text), code=2).stderr
        assert refused.count("firecREST runs nothing on the login node") == 2
        text = re.sub(r"(?m)^  P\w+OnLoginNode: .*\n", "", text)
    result = shell.tarmac("run", shell.write("hooks.yaml", text), *site.options, "--name", "hooked", code=0)
    assert "yes" in of_workers(result.stdout).splitlines()
    shell.tarmac("files", "hooked", "result.txt", "-o", "fetched", code=0)
    assert (shell.directory / "fetched").read_text() == "result\n"
    shell.until("show", "hooked", said="completed")
    if "Firecrest" not in text:
        shell.until("logs", "hooked", "--role", "setup", said="login after\n")
        setup = of_workers(shell.tarmac("logs", "hooked", "--role", "setup", code=0).stdout).splitlines()
        said = [line for line in setup if not line.startswith("+")]
        assert said[-7:] == ["login before", *"12345", "login after"]
    assert "".join(order.read_text().split()) == ("234" if "Firecrest" in text else "12345")


@pytest.mark.parametrize("name", REQUESTS)
def test_the_request_reaches_the_job(
    shell: Shell, site: Place, request: pytest.FixtureRequest, name: str
) -> None:
    """K7."""
    resources, expected = REQUESTS[name]
    if "Reservation" in resources:
        request.getfixturevalue("reservation")
    shell.write("MLproject", SHOW_JOB)
    text = site.config(f"{UNICORE}Resources: {{Queue: batch, {resources}}}\n")
    result = shell.tarmac("run", shell.write("request.yaml", text), *site.options, code=0)
    assert [part for part in expected if part not in result.stdout] == [], result.stdout


def test_the_account_of_the_shell_is_that_of_the_job(
    shell: Shell, site: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K10: Mantik's variable wins over the account of the cluster."""
    monkeypatch.setenv("MANTIK_COMPUTE_BUDGET_ACCOUNT", "other")
    shell.write("MLproject", SHOW_JOB)
    config = shell.write("a.yaml", site.config(f"{UNICORE}Resources: {{Queue: batch}}\n"))
    shown = shell.tarmac("run", config, *site.options, "--dry-run", code=0).stdout
    assert "#SBATCH --account=other\n" in shown
    elsewhere = shell.write("b.yaml", "UnicoreApiUrl: https://a.b/rest/core\nResources: {Queue: batch}\n")
    assert '"Project": "other"' in shell.tarmac("run", elsewhere, "--dry-run", code=0).stdout
    monkeypatch.setenv("MANTIK_COMPUTE_BUDGET_ACCOUNT", "no\nname")
    assert "MANTIK_COMPUTE_BUDGET_ACCOUNT of your shell" in shell.tarmac("run", config, code=2).stderr
