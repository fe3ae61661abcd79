"""Files at a site through its storages, as the operations of an engine need them (`SiteFiles`)."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tarmac.engines.unicore.client import Unicore
from tarmac.engines.unicore.files import UnicoreFiles
from tarmac.model.errors import Unavailable
from unicore_server import Served
from unicore_sites import login

CLAIM = """for number in $(seq 40); do
    (set -o noclobber; echo "job $number" > "$1") 2> /dev/null && exit 0
done"""


@pytest.fixture
def home(site: Served) -> str:
    return str(site.site.users["ada"].directory / "tarmac")


@pytest.fixture
def files(ada: Unicore, home: str) -> UnicoreFiles:
    made = UnicoreFiles(ada, home)
    made.make_directory(home, private=True)
    return made


def test_a_file_is_written_as_a_whole_and_read_in_ranges(files: UnicoreFiles, home: str) -> None:
    content = bytes(range(256)) * 300
    files.write(f"{home}/a file, with %41", content)
    files.write(f"{home}/a file, with %41", content[::-1])
    assert files.read(f"{home}/a file, with %41", offset=0, limit=1 << 20) == content[::-1]
    assert files.read(f"{home}/a file, with %41", offset=10, limit=5) == content[::-1][10:15]
    assert files.read(f"{home}/a file, with %41", offset=-7, limit=5) == content[::-1][-7:-2]
    assert files.read(f"{home}/a file, with %41", offset=len(content), limit=5) == b""
    assert files.read(f"{home}/a file, with %41", offset=-(1 << 20), limit=3) == content[::-1][:3]
    assert files.read(f"{home}/missing", offset=0, limit=5) is None
    files.write(f"{home}/empty", b"")
    assert files.read(f"{home}/empty", offset=0, limit=5) == b""
    assert sorted(entry.path for entry in files.listing(home) or ()) == ["a file, with %41", "empty"], (
        "no draft is left"
    )


def test_a_large_file_is_one_request_which_a_gateway_may_limit(
    site: Served, files: UnicoreFiles, home: str
) -> None:
    content = os.urandom((12 << 20) + 5)
    digest = hashlib.sha256(content).hexdigest()
    assert files.send(f"{home}/large", io.BytesIO(content), size_bytes=len(content), digest=digest)
    assert Path(f"{home}/large").read_bytes() == content
    begins = range(0, 13 << 20, 1 << 20)
    pieces = [files.read(f"{home}/large", offset=begin, limit=1 << 20) for begin in begins]
    assert b"".join(piece or b"" for piece in pieces) == content
    site.site.knobs.largest = 1 << 20
    assert not files.send(f"{home}/other", io.BytesIO(content), size_bytes=len(content), digest=digest)


def test_a_private_file_and_directory_are_for_their_user_alone(files: UnicoreFiles, home: str) -> None:
    files.write(f"{home}/secret", b"s3cret", private=True)
    assert Path(f"{home}/secret").stat().st_mode & 0o777 == 0o600
    assert Path(home).stat().st_mode & 0o777 == 0o700


def test_a_listing_has_names_sizes_and_kinds_also_of_what_is_below(files: UnicoreFiles, home: str) -> None:
    files.make_directory(f"{home}/runs/r1/nodes")
    files.make_directory(f"{home}/runs/r1/nodes")
    files.write(f"{home}/runs/r1/ask", b"four")
    found = {entry.path: entry for entry in files.listing(home, recursive=True) or ()}
    assert set(found) == {"runs", "runs/r1", "runs/r1/ask", "runs/r1/nodes"}
    assert (found["runs/r1/ask"].kind, found["runs/r1/ask"].size_bytes) == ("file", 4)
    assert abs(found["runs/r1/ask"].modified_at - Path(f"{home}/runs/r1/ask").stat().st_mtime) <= 1.0
    assert found["runs/r1/nodes"].kind == "directory"
    assert files.listing(f"{home}/runs/r2") is None
    files.remove(f"{home}/runs")
    files.remove(f"{home}/runs")
    assert files.listing(home) == []


def test_of_many_that_create_a_file_one_wins_and_a_job_is_one_of_them(
    site: Served, files: UnicoreFiles, home: str
) -> None:
    for number in range(3):
        path = f"{home}/claim{number}"
        job = subprocess.Popen(["bash", "-c", CLAIM, "claim", path])
        with ThreadPoolExecutor(4) as threads:
            calls = [threads.submit(files.create, path, mine) for mine in (b"one", b"two", b"three", b"four")]
        found = {call.result() for call in calls}
        job.wait()
        assert found == {Path(path).read_bytes()}
        assert files.create(path, b"late") in found
    assert sorted(entry.path for entry in files.listing(home) or ()) == ["claim0", "claim1", "claim2"]
    assert site.site.jobs == {}, "the jobs on the login node are removed"


def test_where_the_login_node_runs_nothing_a_file_is_not_created(
    site: Served, files: UnicoreFiles, home: str
) -> None:
    site.site.knobs.forbids_login_node = True
    with pytest.raises(Unavailable, match="login node"):
        files.create(f"{home}/claim", b"mine")
    assert files.listing(home) == []


def test_a_failure_of_the_file_system_has_its_number(files: UnicoreFiles, home: str) -> None:
    files.write(f"{home}/file", b"")
    with pytest.raises(NotADirectoryError):
        files.listing(f"{home}/file")
    with pytest.raises(IsADirectoryError):
        files.read(home, offset=0, limit=1)
    with pytest.raises(OSError, match=r"File exists|Not a directory"):
        files.make_directory(f"{home}/file")


def test_a_directory_without_a_storage_is_named(site: Served) -> None:
    site.site.hides_root = True
    with pytest.raises(Unavailable, match="no storage with /nowhere"):
        UnicoreFiles(login(site), "/nowhere/tarmac").make_directory("/nowhere/tarmac")


def test_the_storage_mounted_nearest_has_the_directory(ada: Unicore, home: str) -> None:
    assert UnicoreFiles(ada, home).place().storage == "ada-HOME"
    assert UnicoreFiles(ada, "/var/tmp").place().storage == "ROOT"
