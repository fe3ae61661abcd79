"""What the runner tells of a log: its last lines, and by when it had how many bytes."""

from __future__ import annotations

from pathlib import Path

from tarmac.node.files.logroom import LINES, TimeIndex, last_lines


def written(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def test_short_logs_whole(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert last_lines(str(log)) == []
    assert last_lines(written(log, b"")) == []
    assert last_lines(written(log, b"one\n\ntwo")) == ["one", "", "two"]
    assert last_lines(written(log, b"one\ntwo\n\n")) == ["one", "two"]


def test_a_traceback_that_is_cut_keeps_its_last_line_of_the_users_own(tmp_path: Path) -> None:
    frames = ['  File "/runs/work/train.py", line 9, in <module>', "    main()"]
    frames += ['  File "/runs/work/train.py", line 4, in main', "    core.init()"]
    library = [
        line
        for n in range(15)
        for line in (f'  File "/v/lib/python3.11/site-packages/a.py", line {n}, in f', "    f()")
    ]
    text = ["epoch 1", "Traceback (most recent call last):", *frames, *library, "OSError: refused"]
    log = tmp_path / "log"
    found = last_lines(written(log, "\n".join(text).encode()))
    assert found[:3] == [*frames[2:], "  ..."]
    assert found[3:] == text[-LINES:]
    assert last_lines(written(log, "\n".join([*text, *(f"later {n}" for n in range(LINES))]).encode())) == [
        f"later {n}" for n in range(LINES)
    ]


def test_the_last_lines_of_a_huge_log_are_read_from_its_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.truncate(1 << 40)  # sparse: reading it all would never end
        file.seek(0, 2)
        file.write(b"".join(b"line %d\n" % number for number in range(100)))
    assert last_lines(str(log))[-LINES:] == [f"line {number}" for number in range(80, 100)]


def test_a_line_without_end_is_cut(tmp_path: Path) -> None:
    (line,) = last_lines(written(tmp_path / "log", b"x" * 1_000_000))
    assert set(line) == {"x"}
    assert len(line) <= 500


def test_of_a_progress_bar_the_last_state_is_kept(tmp_path: Path) -> None:
    log = written(tmp_path / "log", b"begin\r\n  1%|\r 50%|\r100%|\r\nend\n")
    assert last_lines(log) == ["begin", "100%|", "end"]


def test_bytes_that_are_no_text_do_no_harm(tmp_path: Path) -> None:
    assert last_lines(written(tmp_path / "log", b"\xff\xfe ok")) == ["\ufffd\ufffd ok"]


def test_the_index_grows_once_a_second_and_only_with_the_log(tmp_path: Path) -> None:
    log, index = tmp_path / "log", tmp_path / "idx"
    noted = TimeIndex(str(log), str(index))
    noted.note(1.0)
    assert not index.exists()
    for now, more in ((10.0, b"abc"), (10.5, b"de"), (11.0, b""), (12.5, b""), (14.0, b"f")):
        with log.open("ab") as file:
            file.write(more)
        noted.note(now)
    assert index.read_text() == "10.000 3\n11.000 5\n14.000 6\n"


def test_the_final_entry_comes_however_soon(tmp_path: Path) -> None:
    log, index = tmp_path / "log", tmp_path / "idx"
    noted = TimeIndex(str(log), str(index))
    log.write_bytes(b"a")
    noted.note(10.0)
    log.write_bytes(b"ab")
    noted.note(10.1, final=True)
    noted.note(10.2, final=True)
    assert index.read_text() == "10.000 1\n10.100 2\n"
