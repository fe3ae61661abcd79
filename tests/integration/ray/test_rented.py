"""Machines rented by three commands become a Ray cluster, for as long as the server wants them."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from rented_hosts import Account, Missing, account
from shell import Shell
from source_tree import ROOT
from tarmac.engines.ray.servers.rented import RentedRays
from tarmac.model.burst.provider import RentedThing
from tarmac.model.burst.rentals import Rental
from tarmac.model.burst.shapes import Shape
from tarmac.model.codec import decode, replace
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.node.files import untrusted

LIMIT_S = 120.0
IMAGE = f"{ROOT}/.venv-bench/bin"
SHAPE = Shape(id="pair", provider="lab", region="here", machine="pair", slots=2, cpus=2.0, rate=1.0)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Account]:
    try:
        with account(tmp_path / "account", path=IMAGE) as made:
            made.stock(pair=3)
            yield made
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def rays(tmp_path: Path) -> RentedRays:
    return rays_at(tmp_path / "home")


def rays_at(home: Path) -> RentedRays:
    """The clusters of the server of a home."""
    return RentedRays(home / "rentals", copies=home / "copies", home=home)


def rental(**fields: object) -> Rental:
    known = {"id": "r1-1-a", "run_id": "r1", "user": "ada", "project": "p", "server": "local", "number": 1}
    return Rental(**{**known, "requested_at": 0.0, "shape": SHAPE, "machines": 2, **fields})  # type: ignore[arg-type]


def command(hosts: Account, name: str, question: object) -> object:
    """What a command of the provider prints."""
    argv = shlex.split(hosts.command(name))
    done = subprocess.run(argv, input=json.dumps(question), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def rent(hosts: Account, rental: Rental, script: str) -> Rental:
    """The rental with its machines."""
    shape = {"machine": "pair", "region": "here"}
    question = {"id": rental.id, "owner": "o", "run": rental.run_id, "machines": rental.machines}
    things = command(hosts, "create", {**question, "shape": shape, "script": script})
    return replace(rental, things=decode(tuple[RentedThing, ...], things, "things"))


def until_reached(rays: RentedRays, rental: Rental) -> None:
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            rays.keep_alive(rental)
        except Unavailable:
            if time.monotonic() > deadline:
                raise
            Event().wait(0.2)
        else:
            return


def until_off(hosts: Account, *names: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while set(names) & set(hosts.on()):
        assert time.monotonic() < deadline, hosts.on()
        Event().wait(0.05)


def test_a_machine_is_reached_by_the_keys_of_its_rental_alone(
    hosts: Account, rays: RentedRays, tmp_path: Path
) -> None:
    """No machine is trusted at first sight: one with another host key is not reached."""
    first = rental(machines=1)
    script = rays.script(first, limit_s=7200.0)
    assert rays_at(tmp_path / "home").script(first, limit_s=60.0) == script, "the same after a crash"
    other = rental(id="r2-1-b", run_id="r2", machines=1)
    other_script = rays.script(other, limit_s=None)
    assert other_script != script
    mine, theirs = rent(hosts, first, script), rent(hosts, other, other_script)
    until_reached(rays, mine)
    until_reached(rays, theirs)
    swapped = replace(mine, things=theirs.things)
    with pytest.raises(Unavailable, match="Host key verification failed"):
        rays.keep_alive(swapped)
    with pytest.raises(Unavailable, match="no address"):
        rays.start(replace(mine, things=(replace(mine.things[0], address=None),)), print)
    until_reached(rays, mine)
    rays.forget(mine)
    assert [path.name for path in (tmp_path / "home/rentals").iterdir()] == [other.id]


def test_a_machine_ends_after_an_hour_of_silence(hosts: Account, rays: RentedRays) -> None:
    rented = rental()
    rented = rent(hosts, rented, rays.script(rented, limit_s=None))
    until_reached(rays, rented)
    for sign in ("@1", "@2", "@3", None):
        if sign is None:
            rays.keep_alive(rented)
        for name in ("host1", "host2"):
            if sign is not None:
                hosts.run(name, "touch", "-d", sign, "/opt/tarmac/sign")
            hosts.pass_minutes(name, 50)
    assert hosts.on() == ["host1", "host2"]
    hosts.pass_minutes("host1", 70)
    until_off(hosts, "host1")
    assert hosts.on() == ["host2"]
    with pytest.raises(Unavailable, match="r1-1-a-1 cannot be reached yet"):
        rays.keep_alive(rented)
    listed = decode(tuple[RentedThing, ...], command(hosts, "list", {}), "things")
    assert [(each.id, each.state, each.address) for each in listed] == [
        ("host1", "gone", None),
        ("host2", "running", rented.things[1].address),
    ]


def test_reports_are_copied_while_the_engine_replaces_them(rays: RentedRays, tmp_path: Path) -> None:
    """The engine may still be at its last look: drafts of its files come and go."""
    heartbeat = tmp_path / "home/copies/burst-r1/runs/r1/attempts/1/nodes/n/heartbeat"
    heartbeat.parent.mkdir(parents=True)
    over = Event()

    def beat() -> None:
        while not over.is_set():
            untrusted.replace(str(heartbeat), b"")

    with ThreadPoolExecutor(1) as threads:
        beats = threads.submit(beat)
        try:
            for _ in range(200):
                rays.keep_files(rental())
        finally:
            over.set()
        beats.result()
    assert (tmp_path / "home/runs/r1/attempts/1/nodes/n/heartbeat").exists()


def test_logs_outlive_the_machines(hosts: Account, rays: RentedRays, tmp_path: Path) -> None:
    rented = rental()
    rented = rent(hosts, rented, rays.script(rented, limit_s=None))
    until_reached(rays, rented)
    attempt = tmp_path / "home/copies/burst-r1/runs/r1/attempts/2"
    attempt.mkdir(parents=True)
    (attempt / "attempt.json").write_text("{}")
    there = "/var/tmp/tarmac-burst-r1/runs/runs/r1/attempts/2/logs"
    for number, name in enumerate(("host1", "host2")):
        write = f"yes | head -c 9000001 > {there}/{number}.log; ln -s /etc/passwd {there}/passwd"
        hosts.run(name, "sh", "-c", f"mkdir -p {there}; {write}")
    (tmp_path / "home/runs").write_text("in the way")
    with pytest.raises(Unavailable, match="some logs were not copied"):
        rays.keep_files(rented)  # nothing that goes wrong here may keep a machine from its end
    (tmp_path / "home/runs").unlink()
    rays.keep_files(rented)
    rays.keep_files(rented)
    kept = tmp_path / "home/runs/r1/attempts/2"
    assert (kept / "attempt.json").read_text() == "{}"
    assert sorted(path.name for path in (kept / "logs").iterdir()) == ["0.log", "1.log"]
    assert (kept / "logs/1.log").stat().st_size == 9000001
    assert [path.name for path in kept.parent.iterdir()] == ["2"]
    hosts.pass_minutes("host2", 70)
    until_off(hosts, "host2")
    with pytest.raises(Unavailable, match="some logs were not copied"):
        rays.keep_files(rented)
    assert sorted(path.name for path in (kept / "logs").iterdir()) == ["0.log", "1.log"], (
        "those from before stay"
    )
    rays.forget(rented)
    assert not (tmp_path / "home/copies/burst-r1").exists()


@pytest.mark.real_engine
@pytest.mark.xdist_group("ray")
@pytest.mark.timeout(900)
def test_rented_machines_become_a_cluster_that_only_ssh_reaches(hosts: Account, tmp_path: Path) -> None:
    """Started twice, as after a crash. The server cannot reach the addresses of the nodes themselves."""
    if not Path(IMAGE, "ray").exists():
        pytest.skip("there is no Ray in .venv-bench")
    home = tmp_path / "home"
    rays, lines = rays_at(home), []
    rented = rental()
    rented = rent(hosts, rented, rays.script(rented, limit_s=7200.0))
    until_reached(rays, rented)
    cluster = rays.start(rented, lambda machine, text: lines.append(f"{machine}: {text}"))
    assert rays_at(home).start(rented, lambda machine, text: lines.append(f"{machine}: {text}")) == cluster
    assert "r1-1-a-1: head runs already" in lines
    assert cluster.pools[0].credits_per_slot_hour == 0.0

    shell = Shell(home, tmp_path / "work")
    shell.directory.mkdir()
    described = {"name": "rented", "engine": "ray", "settings": dict(cluster.settings)}
    try:
        shell.tarmac("clusters", "add", shell.write("rented.json", json.dumps(described)), code=0)
        for name in ("host1", "host2"):
            shell.until("nodes", said=f"{name}.rented")
        says = 'echo "node $NODE_RANK of $NNODES on $(hostname), $MASTER_ADDR"; sleep 600'
        run = {"name": "two", "slots": 4, "cluster": "rented", "command": says}
        shell.tarmac("run", shell.write("run.json", json.dumps(run)), "--detach", code=0)
        inner = rented.things[0].inner_address
        for number, name in enumerate(("host1", "host2")):
            shell.until("logs", "two", said=f"node {number} of 2 on {name}, {inner}\n")
        assert shell.tarmac("exec", "two", "--", "hostname", code=0).stdout == "host1\n"
        shell.tarmac("stop", "two", "--wait", code=0)
    finally:
        shell.close()
    assert hosts.on() == ["host1", "host2"]


def test_machines_that_can_never_be_a_cluster(hosts: Account, rays: RentedRays) -> None:
    """Their Python is missing, and no later try would find it."""
    rented = rental(machines=1)
    rented = rent(hosts, rented, rays.script(rented, limit_s=None))
    until_reached(rays, rented)
    hosts.run("host1", "sh", "-c", "echo export PATH=/nowhere > /root/.profile")
    with pytest.raises(InvalidInput, match="python3"):
        rays.start(rented, lambda *_: None)
