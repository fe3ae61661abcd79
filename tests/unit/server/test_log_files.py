"""Reading logs through `read(path, offset, limit)` alone: tails, time, characters cut between two reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.api.history_operations import LogSource
from tarmac.node.files.masking import NO_SECRETS, Mask
from tarmac.server.logs.log_files import (
    BLOCK_BYTES,
    LONGEST_BYTES,
    LogFile,
    Read,
    last_part,
    parsed,
    since_offset,
    tail_start,
)

SOURCE = LogSource(attempt=1, role="main", replica=0, worker=0, rank=None, node="n")


def over(files: dict[str, bytes]) -> Read:
    return lambda path, offset, limit: files.get(path, b"")[offset : offset + limit]


@given(st.lists(st.sampled_from(["", "a", "bb", "c" * 40]), max_size=30), st.booleans(), st.integers(0, 35))
def test_a_tail_is_the_last_lines(lines: list[str], unfinished: bool, wanted: int) -> None:
    text = "".join(f"{line}\n" for line in lines) + ("open" if unfinished else "")
    offset, found = tail_start(over({"log": text.encode()}), "log", wanted)
    expected = text.splitlines(keepends=True)[-wanted:] if wanted else []
    assert (text[offset:], found) == ("".join(expected), len(expected))


def test_a_tail_reaches_over_blocks() -> None:
    text = b"".join(b"%d %s\n" % (number, b"x" * 30_000) for number in range(20))
    offset, _ = tail_start(over({"log": text}), "log", 9)
    assert text[offset:].startswith(b"11 xxx")
    assert len(text) > 4 * BLOCK_BYTES


def test_a_tail_of_nothing_is_its_end() -> None:
    assert tail_start(over({}), "log", 5) == (0, 0)


@given(st.text(max_size=60), st.lists(st.integers(1, 7), max_size=40))
def test_text_comes_whole_however_it_was_written(text: str, pieces: list[int]) -> None:
    data = text.encode("utf-8", "surrogatepass")
    files = {"log": b""}
    log = LogFile(over(files), "log", source=SOURCE, mask=lambda: NO_SECRETS)
    seen, reached = "", 0
    for size in [*pieces, len(data)]:
        files["log"] = data[: len(files["log"]) + size]
        if chunk := log.chunk():
            assert chunk.offset == reached
            seen, reached = seen + chunk.text, chunk.next
    if chunk := log.rest():
        assert chunk.offset == reached
        seen, reached = seen + chunk.text, chunk.next
    assert seen == data.decode("utf-8", "replace")
    assert reached == len(data)


@given(st.binary(max_size=60), st.integers(0, 60))
def test_a_reader_that_comes_back_goes_on_at_the_next_byte(data: bytes, cut: int) -> None:
    files = {"log": data[:cut]}
    first = LogFile(over(files), "log", source=SOURCE, mask=lambda: NO_SECRETS)
    before = first.chunk()
    files["log"] = data
    second = LogFile(over(files), "log", source=SOURCE, mask=lambda: NO_SECRETS)
    second.seek(before.next if before else 0)
    after = "".join(chunk.text for chunk in (second.chunk(), second.rest()) if chunk)
    assert (before.text if before else "") + after == data.decode("utf-8", "replace")


def test_time_is_looked_up_in_the_index() -> None:
    read = over({"logs/a.0.0.idx": b"10.0 100\n20.5 200\n30.0 300\nbroken"})
    assert [since_offset(read, "logs/a.0.0.log", at) for at in (5, 10, 20, 20.5, 99)] == [
        0,
        100,
        100,
        200,
        300,
    ]
    assert since_offset(read, "logs/other.log", 99) == 0


def test_a_torn_line_is_no_record() -> None:
    assert parsed(b'{"a": 1}') == {"a": 1}
    assert parsed(b'{"a": ') == {}
    assert parsed(b"[1]") == {}
    assert parsed(b"\xff") == {}


def test_a_file_is_read_to_its_end() -> None:
    data = bytes(range(256)) * 1000
    assert last_part(over({"f": data}), "f") == (data, True)


def test_of_a_file_too_long_the_last_lines_are_read() -> None:
    data = b"".join(b"%d\n" % number for number in range(10_000))
    found, whole = last_part(over({"f": data}), "f", 1000)
    assert not whole
    assert data.endswith(found)
    assert 990 < len(found) < 1000
    assert found.split(b"\n")[0].isdigit()


def test_a_tail_of_gigabytes_without_a_line_end_is_not_looked_through() -> None:
    blocks = 0

    def endless(_path: str, offset: int, limit: int) -> bytes:
        nonlocal blocks
        blocks += 1
        return bytes(max(0, min(limit, (2 << 30) - offset)))

    assert (2 << 30) - tail_start(endless, "log", 10)[0] <= LONGEST_BYTES + 1
    assert blocks < 2 * LONGEST_BYTES // BLOCK_BYTES


@pytest.mark.parametrize("line", [b"x 1", b"1", b"1 -5", b"nan 7", b"1 " + b"9" * 5000, b"\xff \xff"])
def test_a_garbled_time_index_is_no_harm(line: bytes) -> None:
    assert 0 <= since_offset(over({"a.idx": b"1.0 10\n" + line + b"\n3.0 30\n"}), "a.log", 2.0) < 10**15


def test_what_was_left_out_of_a_log_is_said_in_its_place() -> None:
    note = b'{"begin": 6, "end": 1000000}'
    log = LogFile(
        over({"l.log": b"first\n" + bytes(999_994) + b"last\n", "l.cut": note}),
        "l.log",
        source=SOURCE,
        mask=lambda: NO_SECRETS,
    )
    chunks = []
    while chunk := log.chunk():
        chunks.append((chunk.offset, chunk.next, chunk.text))
    assert chunks == [
        (0, 6, "first\n"),
        (6, 1_000_000, "\n[tarmac: 999,994 bytes of this log are left out: it was too long]\n"),
        (1_000_000, 1_000_005, "last\n"),
    ]


@pytest.mark.parametrize("note", [b"{", b"[]", b'{"begin": "x"}', b'{"begin": 9, "end": 1}'])
def test_a_garbled_note_leaves_nothing_out(note: bytes) -> None:
    log = LogFile(over({"l.log": b"a\0b\n", "l.cut": note}), "l.log", source=SOURCE, mask=lambda: NO_SECRETS)
    chunk = log.chunk()
    assert chunk is not None
    assert chunk.text == "a\0b\n"


SECRET = "s3cret-Value/1"


@given(
    st.lists(st.sampled_from([SECRET, SECRET[:9], "x", "é", "\n"]), max_size=30),
    st.lists(st.integers(1, 40), min_size=1, max_size=40),
)
def test_a_secret_is_hidden_however_its_log_grows(written: list[str], sizes: list[int]) -> None:
    """Followed while it is written, in pieces that tear secrets and characters apart."""
    data = "".join(written).encode()
    files = {"log": b""}
    log = LogFile(over(files), "log", source=SOURCE, mask=lambda: Mask([SECRET]))
    seen, reached = "", 0
    for size in [*sizes, len(data)]:
        files["log"] = data[: len(files["log"]) + size]
        if chunk := log.chunk():
            assert chunk.offset == reached
            seen, reached = seen + chunk.text, chunk.next
    if chunk := log.rest():
        seen, reached = seen + chunk.text, chunk.next
    assert reached == len(data)
    ends_torn = "".join(written).endswith(SECRET[:9])
    expected = "".join(written).replace(SECRET, "***")
    assert seen == (expected[: -len(SECRET[:9])] + "***" if ends_torn else expected)


@given(st.integers(0, 200))
def test_a_secret_is_hidden_wherever_reading_begins(place: int) -> None:
    """Also from within it: a client may ask for any place."""
    data = ("-" * 70 + SECRET) * 2 + "-" * 30
    log = LogFile(over({"log": data.encode()}), "log", source=SOURCE, mask=lambda: Mask([SECRET]))
    log.seek(place)
    chunks = [chunk for chunk in (log.chunk(), log.rest()) if chunk]
    shown = "".join(chunk.text for chunk in chunks)
    assert set(shown) <= set("-*")
    assert not chunks or chunks[0].offset == place


def test_a_secret_is_hidden_across_blocks() -> None:
    data = b"x" * (BLOCK_BYTES - 5) + SECRET.encode() + b"y" * BLOCK_BYTES
    log = LogFile(over({"log": data}), "log", source=SOURCE, mask=lambda: Mask([SECRET]))
    shown = ""
    while chunk := log.chunk():
        shown += chunk.text
    assert shown == "x" * (BLOCK_BYTES - 5) + "***" + "y" * BLOCK_BYTES


def test_what_looks_like_a_key_is_hidden_in_every_log() -> None:
    key = "hf_" + "aB3" * 11
    files = {"log": b"using h"}
    log = LogFile(over(files), "log", source=SOURCE, mask=lambda: NO_SECRETS)
    shown = [chunk.text for chunk in (log.chunk(),) if chunk]
    for grown in (f"using {key[:6]}", f"using {key}", f"using {key} now\n"):
        files["log"] = grown.encode()
        shown += [chunk.text for chunk in (log.chunk(),) if chunk]
    assert "".join(shown) == "using h*** now\n"
