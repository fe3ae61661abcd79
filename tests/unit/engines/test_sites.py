"""What engines for sites share: operations on files alone, parts that jobs join, and copies of reports."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from site_files import LocalFiles
from tarmac.engines.attempts.layout import Layout
from tarmac.engines.attempts.writing import attempt_files
from tarmac.engines.hosts import installing
from tarmac.engines.hosts.host import HostStoreFiles
from tarmac.engines.sites.host import SiteHost
from tarmac.engines.sites.packing import LARGE_BYTES, unpacking
from tarmac.engines.sites.settings import check_credentials, read_settings
from tarmac.engines.sites.wire import PART_BYTES
from tarmac.engines.slurm.delivery import COMPILE
from tarmac.launch.quoting import join
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.node.attempt import claims
from tarmac.node.attempt.document import Launch
from tarmac.node.attempt.protocol import AttemptPaths
from tarmac.node.starting import NODE_DIRECTORY, Installation

NEEDED = {"url": "https://site.example.org/api", "directory": "/scratch/ada/tarmac", "partition": "batch"}
FILES = {"attempt.json": b"{}", "slurm.sh": b"true\n"}


class Site:
    """A host over files of this machine."""

    def __init__(self, place: Path) -> None:
        self.home, self.copies = place / "home", place / "copies"
        self.files = LocalFiles()
        self.host = SiteHost(self.home, self.files, "at site", copies=self.copies)
        self.host.prepare()
        self.attempt = self.host.directory("run1.1")

    def unpack(self, *needed: Path, jobs: int = 1) -> list[int]:
        """Begin jobs at the same time; their exit codes."""
        python = Installation(sys.executable, f"{self.home}/node/version/{installing.RUNNER}")
        lines = unpacking(
            str(self.home),
            map(str, needed),
            take=join(python.take("", "")[:-2]),
            compile_with=join([sys.executable, *COMPILE]),
        )
        started = [
            subprocess.Popen(
                ["bash", "-uc", lines],
                env={**os.environ, "SLURM_JOB_ID": str(number)},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for number in range(jobs)
        ]
        return [job.wait(60) for job in started]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


# --- parts ------------------------------------------------------------------------------------------------


def test_jobs_at_the_same_time_unpack_what_came_once(site: Site) -> None:
    version, code = site.home / "node/version", site.home / "code" / ("a" * 64)
    listing, pack = b"the list", os.urandom(3 << 20)
    assert not site.host.use(version)
    assert site.host.make_directory(version, installing.collect((NODE_DIRECTORY,)))
    pieces = [b"%d %d\n" % (len(listing), len(pack)), listing, pack]
    site.host.take_code(code.parent, code.name, iter(pieces))
    assert site.host.use(version)
    assert site.host.use(code)
    assert not version.exists()
    assert site.unpack(version, code, jobs=4) == [0, 0, 0, 0]
    assert (version / "tarmac/node/__main__.py").is_file()
    assert list(version.rglob("*.pyc"))
    assert code.read_bytes() == listing
    assert (code.parent / "packs" / f"{code.name}.pack").read_bytes() == pack
    assert list((site.home / "packed").iterdir()) == []
    assert site.host.use(version)


def test_parts_that_are_damaged_or_incomplete_are_not_unpacked(site: Site) -> None:
    version = site.home / "node/version"
    site.host.make_directory(version, {"tarmac/x.py": os.urandom(2 << 20)})
    (part, *_) = sorted((site.home / "packed").glob("*/part-*"))
    whole = part.read_bytes()
    part.write_bytes(whole[:-1])
    assert site.unpack(version) == [1]
    assert not version.exists()
    part.write_bytes(whole)
    (total,) = (site.home / "packed").glob("*/sum")
    digest = total.read_bytes()
    total.unlink()
    assert not site.host.use(version)
    assert site.unpack(version) == [1]
    total.write_bytes(digest)
    assert site.unpack(version) == [0]


@pytest.mark.parametrize("sends", [True, False])
def test_a_large_whole_is_one_part_unless_the_interface_has_no_way_for_it(site: Site, sends: bool) -> None:
    """Half of it, after a failure, is in no job's way."""
    site.files.sends = sends
    site.host.make_directory(site.home / "node/version", installing.collect((NODE_DIRECTORY,)))
    code = site.home / "code" / ("a" * 64)
    pack = os.urandom(LARGE_BYTES)
    site.host.take_code(code.parent, code.name, iter([b"1 %d\nl" % len(pack), pack]))
    assert site.files.calls["send"] == 1
    assert (site.files.calls["write"] > LARGE_BYTES // PART_BYTES) is not sends
    assert len(list((site.home / "packed").iterdir())) == 2
    assert site.unpack(code) == [0]
    assert (code.parent / "packs" / f"{code.name}.pack").read_bytes() == pack


def test_a_store_at_a_site_has_pieces_that_one_answer_holds() -> None:
    sidecar = installing.Sidecar(store="/home/ada/artifacts", patience_s=1.0, packages=())
    python = Installation(sys.executable, "/somewhere/tarmac/node")
    assert sidecar.at(python).piece_bytes == 0
    assert sidecar.in_directory(Path("/scratch")).at(python).piece_bytes * 4 / 3 < 5 << 20


def test_large_files_of_artifacts_are_joined_by_the_next_job(site: Site) -> None:
    store = HostStoreFiles(site.host, site.home / "artifacts")
    content = os.urandom((2 << 20) + 5)
    for begin in range(0, len(content), 1 << 20):
        end = begin + (1 << 20)
        store.write("blobs/ab/whole", begin, content[begin:end], last=end >= len(content))
    store.write("small", 0, b"small", last=True)
    listed = {name: size for name, size, _ in store.listing("")}
    assert listed == {"blobs/ab/whole": len(content), "small": 5}
    assert store.read("blobs/ab/whole", offset=0, limit=10) is None
    assert site.unpack() == [0]
    assert {name: size for name, size, _ in store.listing("blobs")} == {"blobs/ab/whole": len(content)}
    assert hashlib.sha256((site.home / "artifacts/blobs/ab/whole").read_bytes()).digest() == (
        hashlib.sha256(content).digest()
    )


# --- operations ---------------------------------------------------------------------------------------------


def test_a_directory_is_there_once_all_of_its_files_are(site: Site) -> None:
    """After a crash in between the next call completes it, and nobody has seen half of it."""
    site.files.make_directory(str(site.attempt))
    site.files.write(f"{site.attempt}/attempt.json", b"{")
    site.host.refresh(["run1.1"])
    assert not (site.copies / "runs").exists()
    assert site.host.make_directory(site.attempt, FILES)
    assert not site.host.make_directory(site.attempt, {"attempt.json": b"other"})
    site.host.refresh(["run1.1"])
    assert (site.copies / "runs/run1/attempts/1/attempt.json").read_bytes() == b"{}"
    assert site.home.stat().st_mode & 0o777 == 0o700


def test_a_fence_is_one_for_the_runner(site: Site) -> None:
    site.host.make_directory(site.attempt, FILES)
    site.host.fence(site.attempt, ["rank-0"])
    node = AttemptPaths(str(site.attempt)).node("rank-0")
    assert not claims.take(node, "token", pid=os.getpid())
    found = claims.read(node)
    assert found is not None
    assert found.fenced


def test_what_a_site_cannot_do_is_unavailable(site: Site) -> None:
    with pytest.raises(Unavailable, match="for files and jobs alone, not for 'run'"):
        site.host.run(["squeue"], variables={}, timeout_s=1.0)
    for path in ("", "..", "../1/attempt.json", "/etc/passwd", "logs/../attempt.json", "a\nb"):
        assert site.host.read(site.attempt, path, offset=0, limit=10) is None


def test_clearing_and_removing_leave_what_others_need(site: Site) -> None:
    site.host.make_directory(site.attempt, FILES)
    for name in ("logs/main.0.0.log", "nodes/rank-0/work/x", "nodes/rank-0/events.jsonl"):
        path = site.attempt / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    assert site.host.clear("run1", work_days=1.0, log_days=None) == 1
    assert site.host.clear("run1", work_days=None, log_days=7.0) == 1
    assert json.loads((site.attempt / "cleared").read_text()) == {"work": 1.0, "logs": 7.0}
    assert sorted(path.name for path in site.attempt.rglob("*") if path.is_file()) == [
        *(".complete", "attempt.json", "cleared", "events.jsonl", "slurm.sh")
    ]
    assert site.host.remains() == ["run1"]
    site.host.remove("run1")
    assert site.host.remains() == []


def test_copies_that_no_live_run_uses_are_cleared_by_age(site: Site) -> None:
    old, used, new = ("a" * 64, "b" * 64, "c" * 64)
    launch = Launch("run1.1", number=1, token="", nodes=(), code=f"{site.home}/code/{used}")
    (copy := Layout(site.copies).runs / "run1/attempts/1").mkdir(parents=True)
    for name, content in attempt_files(launch).items():
        (copy / name).write_bytes(content)
    for name in (old, used, new):
        path = site.home / "code" / name
        path.touch()
        if name != new:
            os.utime(path, (0, 0))
    assert site.host.clear_copies(["run1"], unused_days=1.0, version="v") == 1
    assert {path.name for path in (site.home / "code").iterdir()} == {used, new}


# --- reports ------------------------------------------------------------------------------------------------


def test_only_what_changed_is_read_and_a_growing_file_from_its_end(site: Site) -> None:
    site.host.make_directory(site.attempt, FILES)
    node, copy = site.attempt / "nodes/rank-0", site.copies / "runs/run1/attempts/1/nodes/rank-0"
    node.mkdir(parents=True)
    events, heartbeat = node / "events.jsonl", node / "heartbeat"
    events.write_text('{"kind": "claimed"}\n')
    heartbeat.touch()
    site.host.refresh(["run1.1"])
    assert (copy / "events.jsonl").read_bytes() == events.read_bytes()
    seen_at = (copy / "heartbeat").stat().st_mtime_ns
    reads = site.files.calls["read"]
    site.host.refresh(["run1.1"])
    assert site.files.calls["read"] == reads
    assert (copy / "heartbeat").stat().st_mtime_ns == seen_at
    os.utime(heartbeat, (1, 1))
    with events.open("a") as file:
        file.write('{"kind": "running"}\n')
    (node / "reports.jsonl").write_text('{"step": 1}\n')
    site.host.refresh(["run1.1"])
    assert site.files.calls["read"] == reads + 2
    assert (copy / "events.jsonl").read_bytes() == events.read_bytes()
    assert (copy / "reports.jsonl").read_bytes() == b'{"step": 1}\n'
    assert (copy / "heartbeat").stat().st_mtime_ns != seen_at
    site.host.refresh(["run1.1", "run2.1"])


def test_a_request_is_seen_though_the_one_before_is_as_long_and_from_the_same_second(site: Site) -> None:
    site.host.make_directory(site.attempt, FILES)
    copy = site.copies / "runs/run1/attempts/1/ask"
    for content in (b'{"ask": "stop"}', b'{"ask": "none"}'):
        site.host.request_leave(site.attempt, content, [])
        os.utime(site.attempt / "ask", (7, 7))
        site.host.refresh(["run1.1"])
        assert copy.read_bytes() == content


# --- settings -----------------------------------------------------------------------------------------------


def test_settings_of_a_site_have_pools_with_gpus_of_a_node() -> None:
    given = {**NEEDED, "poll": "30s", "pools": {"train": {"gpus_per_node": "4", "gpu_type": "GH200"}}}
    settings = read_settings(given, "firecrest")
    (pool,) = settings.slurm.pools
    assert (settings.poll_s, pool.gpus_per_node, pool.partition) == (30.0, 4, "batch")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"url": None}, "needs the setting 'url'"),
        ({"url": "site.example.org"}, "'url' is 'site.example.org'"),
        ({"directory": None}, "needs the setting 'directory'"),
        ({"directory": "/scratch/../etc"}, "without '..'"),
        ({"partition": None}, "needs the setting 'partition'"),
        ({"gpus_per_node": 0}, "'gpus_per_node' is 0"),
        ({"ssh": "login"}, "has no setting 'ssh'"),
        ({"poll": "often"}, "'poll' is 'often'"),
    ],
)
def test_a_mistake_in_the_settings_is_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_settings({**NEEDED, **changes}, "firecrest")


def test_credentials_are_the_ones_that_the_engine_has() -> None:
    allowed = [("user", "password"), ("token",)]
    check_credentials({"token": "a-secret"}, allowed, "unicore")
    for given in ({}, {"user": "a"}, {"token": "a", "user": "b"}):
        with pytest.raises(InvalidInput, match="the engine unicore has the credentials"):
            check_credentials(given, allowed, "unicore")
