"""The time of each part of a log, by the index beside it."""

from __future__ import annotations

from tarmac.api.history_operations import LogSource
from tarmac.node.files.masking import NO_SECRETS
from tarmac.server.logs.log_files import LogFile, Read
from tarmac.server.logs.log_times import LogTimes

SOURCE = LogSource(attempt=1, role="main", replica=0, worker=0, rank=None, node="n-1")
NOW = 500.0


def over(files: dict[str, bytes]) -> Read:
    return lambda path, offset, limit: files.get(path, b"")[offset : offset + limit]


def chunks(files: dict[str, bytes]) -> list[tuple[float | None, str]]:
    times = LogTimes(over(files), "a.log", now=lambda: NOW)
    log = LogFile(over(files), "a.log", source=SOURCE, mask=lambda: NO_SECRETS, times=times)
    found = []
    while chunk := log.chunk():
        found.append((chunk.at, chunk.text))
    return found


def test_a_log_is_read_in_parts_of_one_time() -> None:
    files = {"a.log": b"one\ntwo\nthree\n", "a.idx": b"100.0 4\n101.5 8\n"}
    assert chunks(files) == [(100.0, "one\n"), (101.5, "two\n"), (NOW, "three\n")]


def test_an_index_that_grows_is_read_on() -> None:
    files = {"a.log": b"one\ntwo\n", "a.idx": b"100 4\n10"}
    times = LogTimes(over(files), "a.log", now=lambda: NOW)
    assert (times.of(0), times.of(4)) == ((100.0, 4), (NOW, None))
    files["a.idx"] = b"100 4\n101 8\n"
    assert (times.of(4), times.of(0)) == ((101.0, 8), (100.0, 4))


def test_what_a_worker_wrote_into_the_index_does_no_harm() -> None:
    index = b"nonsense\ninf 2\nnan 3\n100 4\n-5 6\n101 8\n99 1\n102 12\n"
    files = {"a.log": b"one\ntwo\nsix\n", "a.idx": index}
    assert chunks(files) == [(100.0, "one\n"), (101.0, "two\n"), (102.0, "six\n")]


def test_what_waits_for_its_time_is_read_once_the_index_has_it() -> None:
    files = {"a.log": b"one\ntwo\n", "a.idx": b"100 4\n"}
    times = LogTimes(over(files), "a.log", now=lambda: None)
    log = LogFile(over(files), "a.log", source=SOURCE, mask=lambda: NO_SECRETS, times=times)
    assert [log.chunk() is None for _ in range(3)] == [False, True, True]
    files["a.idx"] = b"100 4\n101 8\n"
    chunk = log.chunk()
    assert chunk is not None
    assert (chunk.at, chunk.text) == (101.0, "two\n")


def test_without_an_index_or_without_asking_nothing_is_made_up() -> None:
    assert chunks({"a.log": b"one\n"}) == [(NOW, "one\n")]
    log = LogFile(over({"a.log": b"one\n"}), "a.log", source=SOURCE, mask=lambda: NO_SECRETS)
    chunk = log.chunk()
    assert chunk is not None
    assert chunk.at is None
