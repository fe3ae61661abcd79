"""Large files of a site behind a firecREST: through its object store, or not at all; and text by blocks."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import time
from contextlib import suppress
from pathlib import Path

import pytest

from engine_harness import BOUND_S
from firecrest_harness import FirecrestHarness
from firecrest_store import Faults
from tarmac.engines.firecrest.files import BLOCK_BYTES, FirecrestFiles
from tarmac.engines.firecrest.transfers import Facts, Transfers
from tarmac.engines.sites.host import SiteHost
from tarmac.engines.sites.packing import LARGE_BYTES
from tarmac.engines.sites.wire import PART_BYTES
from tarmac.model.errors import Unavailable

pytestmark = [pytest.mark.real_engine, pytest.mark.xdist_group("slurm")]

LARGE = os.urandom((12 << 20) + 5)


@pytest.fixture
def stored(firecrest: FirecrestHarness) -> FirecrestHarness:
    """A site with an object store."""
    firecrest.server.knobs.has_store = True
    return firecrest


def send(files: FirecrestFiles, path: str) -> bool:
    digest = hashlib.sha256(LARGE).hexdigest()
    return files.send(path, io.BytesIO(LARGE), size_bytes=len(LARGE), digest=digest)


def held(firecrest: FirecrestHarness) -> list[str]:
    """The site's own jobs that wait."""
    return firecrest.command(
        "squeue", "--noheader", "--states=pending", "--name=OutgressFileTransfer", "--format=%i"
    ).split()


# --- uploads --------------------------------------------------------------------------------------------


def test_a_large_file_is_sent_through_the_object_store(stored: FirecrestHarness) -> None:
    """In parts of the size that the site allows; with no token, and to no other address."""
    path = stored.near / "large"
    assert send(FirecrestFiles(stored.api), str(path))
    assert path.read_bytes() == LARGE
    assert [each for each in stored.server.store.requests if not each.startswith("GET")] == [
        *("PUT", "PUT", "PUT", "POST")
    ]
    assert stored.server.calls["upload"] == 0


def test_without_an_object_store_nothing_is_sent(firecrest: FirecrestHarness) -> None:
    path = firecrest.near / "large"
    assert not send(FirecrestFiles(firecrest.api), str(path))
    assert firecrest.server.calls["transfer_upload"] == 0
    assert not path.exists()


@pytest.mark.parametrize("fault", ["lost", "expired", "half"])
def test_a_failed_transfer_is_none_and_its_job_is_cancelled(stored: FirecrestHarness, fault: str) -> None:
    stored.server.store.faults = Faults(**{fault: True})
    assert not send(FirecrestFiles(stored.api), str(stored.near / "large"))
    if fault != "half":  # there the job has ended, and calls it a success
        assert stored.server.calls["cancel"] == 1


def test_a_job_that_does_not_begin_is_not_waited_for(stored: FirecrestHarness) -> None:
    stored.server.store.faults.held = True
    transfer = Transfers(stored.api, start_s=0.5)
    assert not transfer.send(str(stored.near / "large"), io.BytesIO(LARGE), len(LARGE))
    assert stored.server.calls["cancel"] == 1


@pytest.mark.parametrize("fault", ["", "lost"])
def test_what_a_run_needs_arrives_by_one_transfer_or_in_parts(stored: FirecrestHarness, fault: str) -> None:
    stored.server.store.faults.lost = fault == "lost"
    content = os.urandom(LARGE_BYTES)
    host = SiteHost(stored.home, FirecrestFiles(stored.api), "at site", copies=stored.near / "copies")
    host.prepare()
    host.take_code(stored.home / "code", "a" * 64, iter([content]))
    (place,) = (stored.home / "packed").iterdir()
    whole = b"".join(path.read_bytes() for path in sorted(place.glob("part-*")))
    assert (place / "sum").read_text() == f"{hashlib.sha256(whole).hexdigest()}\n"
    assert gzip.decompress(whole) == content
    assert len(list(place.glob("part-*"))) == (1 if not fault else len(whole) // PART_BYTES + 1)


# --- downloads ------------------------------------------------------------------------------------------


def pieces(files: FirecrestFiles, path: Path, size: int = 1 << 20) -> bytes:
    """The content, read in pieces."""
    begins = range(0, path.stat().st_size + 1, size)
    return b"".join(files.read(str(path), offset=begin, limit=size) or b"" for begin in begins)


def test_a_large_file_is_read_by_ranges_of_its_copy(stored: FirecrestHarness) -> None:
    """One job of the site for all ranges; a changed file is copied again."""
    path = stored.near / "large"
    path.write_bytes(LARGE)
    files = FirecrestFiles(stored.api)
    assert pieces(files, path) == LARGE
    assert files.read(str(path), offset=-7, limit=7) == LARGE[-7:]
    assert files.read(str(path), offset=len(LARGE), limit=7) == b""
    assert stored.server.calls["transfer_download"] == 1
    path.write_bytes(LARGE + b"more")
    assert files.read(str(path), offset=len(LARGE), limit=9) == b"more"
    assert stored.server.calls["transfer_download"] == 2


def test_the_limit_of_a_site_without_an_object_store_is_named(firecrest: FirecrestHarness) -> None:
    path = firecrest.near / "large"
    path.write_bytes(LARGE)
    with pytest.raises(OSError, match="it has 12582917 bytes: this firecREST sends at most 3932160"):
        FirecrestFiles(firecrest.api).read(str(path), offset=0, limit=1)
    path.write_bytes(LARGE[: 3 << 20])
    assert pieces(FirecrestFiles(firecrest.api), path) == LARGE[: 3 << 20]


def test_an_expired_address_is_replaced_by_another(stored: FirecrestHarness) -> None:
    path = stored.near / "large"
    path.write_bytes(LARGE)
    files = FirecrestFiles(stored.api)
    assert files.read(str(path), offset=0, limit=5) == LARGE[:5]
    stored.server.store.faults.expired = True
    with pytest.raises(Unavailable, match="the site's object store: status 403"):
        files.read(str(path), offset=0, limit=5)
    stored.server.store.faults.expired = False
    assert files.read(str(path), offset=0, limit=5) == LARGE[:5]


def test_a_reader_is_told_of_the_job_that_it_waits_for(stored: FirecrestHarness) -> None:
    path = stored.near / "large"
    path.write_bytes(LARGE)
    transfer, facts = Transfers(stored.api, wait_s=0.1), Facts(len(LARGE), 1)
    stored.server.store.faults.held = True
    with pytest.raises(Unavailable, match=r"job \d+ of the site copies .*/large to the site's object store"):
        transfer.read(str(path), facts, offset=0, limit=5)
    (job,) = held(stored)
    stored.command("scontrol", "release", job)
    deadline = time.monotonic() + BOUND_S
    while True:
        with suppress(Unavailable):
            assert transfer.read(str(path), facts, offset=0, limit=5) == LARGE[:5]
            break
        assert time.monotonic() < deadline
    assert stored.server.calls["transfer_download"] == 1


# --- text -----------------------------------------------------------------------------------------------

TEXTS = {
    "ascii": b"0123456789abcde\n" * 40_000,
    "bars": "epoch ▏████▏ größer 🙂\n".encode() * 20_000,
    "one": b"x" * (BLOCK_BYTES - 1) + "█".encode() * 100_000,
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_log_is_read_exactly_whatever_its_characters_and_however_it_grows(
    firecrest: FirecrestHarness, text: str
) -> None:
    """firecREST counts characters within blocks; a log may end within a character."""
    content, path = TEXTS[text], firecrest.near / "main.0.0.log"
    files, offset, read = FirecrestFiles(firecrest.api), 0, b""
    for end in (5, 100_003, 100_004, 100_005, 300_001, len(content)):
        path.write_bytes(content[:end])
        while piece := files.read(str(path), offset=offset, limit=1 << 20):
            read += piece
            offset += len(piece)
    assert read == content
    assert firecrest.server.calls["download"] == 0, "by ranges alone"
