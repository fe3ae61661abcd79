"""Reading traces: each form known by its content, and everything wrong with a file told at once, located."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.model.errors import InvalidInput, Problem
from tarmac.model.lifecycle import Mode
from tarmac.simulator.forms import Meaning, Window, columns_of
from tarmac.simulator.traces import PROBLEMS_LISTED, parse_time, read_trace

DATA = Path(__file__).parents[2] / "data" / "traces"


def written(path: Path, *lines: str) -> str:
    """A file of these lines."""
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def problems(path: str, **wanted: object) -> tuple[Problem, ...]:
    """What is wrong with a trace."""
    with pytest.raises(InvalidInput) as raised:
        read_trace(path, **wanted)
    return raised.value.problems


@pytest.mark.parametrize(
    ("file", "form", "jobs", "cluster", "first"),
    [
        ("philly_excerpt.csv", "philly", 120, "64x8", (1506902515.0, 1, "11cb48")),
        ("muri_excerpt.csv", "muri", 40, "8x8", (0.0, 8, None)),
        ("shockwave_excerpt.trace", "shockwave", 40, "8x4", (0.0, 1, None)),
    ],
)
def test_a_form_is_known_by_its_content_whatever_the_file_is_called(
    tmp_path: Path, file: str, form: str, jobs: int, cluster: str, first: tuple[object, ...]
) -> None:
    other = tmp_path / "anything.txt"
    other.write_bytes((DATA / file).read_bytes())
    trace = read_trace(str(other))
    assert (trace.form, len(trace.jobs), trace.cluster) == (form, jobs, cluster)
    job = trace.jobs[0]
    assert (job.submitted_at, job.slots, job.user) == first
    assert [job.submitted_at for job in trace.jobs] == sorted(job.submitted_at for job in trace.jobs)


def test_milliseconds_and_names_of_muri_are_understood() -> None:
    job = read_trace(str(DATA / "muri_excerpt.csv")).jobs[1]
    assert (job.submitted_at, job.duration_s, job.slots, job.name) == (1534.0, 281.0, 8, "vgg16")


def test_a_window_takes_what_was_submitted_within_it() -> None:
    whole = read_trace(str(DATA / "philly_excerpt.csv")).jobs
    since, until = whole[10].submitted_at, whole[20].submitted_at
    part = read_trace(str(DATA / "philly_excerpt.csv"), window=Window(since=since, until=until)).jobs
    assert part == tuple(job for job in whole if since <= job.submitted_at < until)


def test_any_csv_with_its_columns_named(tmp_path: Path) -> None:
    path = written(
        tmp_path / "mine.csv",
        "who,began,took,n,kind,limit",
        "ada,2026-01-01T00:00:10,30,2,interruptible,60",
        "bob,2026-01-01T00:00:05Z,1.5,1,,",
    )
    columns = columns_of("submitted=began,duration=took,slots=n,user=who,mode=kind,limit=limit")
    trace = read_trace(path, columns=columns)
    bob, ada = trace.jobs
    assert (bob.user, bob.duration_s, bob.mode, bob.limit_s) == ("bob", 1.5, Mode.BATCH, None)
    assert (ada.slots, ada.mode, ada.limit_s) == (2, Mode.INTERRUPTIBLE, 60.0)
    assert ada.submitted_at - bob.submitted_at == 5.0


SWF = (
    "; Version: 2.2",
    "; UnixStartTime: 1000000000",
    "; MaxNodes: 4",
    ";MaxProcs: 32",
    "1 0 5 100 8 -1 -1 8 300 -1 1 3 1 7 1 -1 -1 -1",
    "  2 10.5 -1   60 -1 -1 -1 4   30 -1 0 -1 -1 -1 -1 -1 -1 -1",
    "3 20 -1 -1 8 -1 -1 8 300 -1 5 3 1 7 1 -1 -1 -1",
    "4 30 -1 10 0 -1 -1 -1 300 -1 0 3 1 7 1 -1 -1 -1",
    "5 40 -1 0 1 -1 -1 -1 -1 -1 1 3 1 7 1 -1 -1 -1",
)


def test_a_log_of_the_parallel_workloads_archive_is_read_by_its_own_columns(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path / "log", *SWF))
    assert (trace.form, trace.cluster, trace.left_out) == ("swf", "4x8", 2), "no time, and no processors"
    first, late, momentary = trace.jobs
    assert (first.submitted_at, first.duration_s, first.slots, first.limit_s) == (1e9, 100.0, 8, 300.0)
    assert (first.user, first.name) == ("3", "7")
    assert (late.submitted_at, late.slots, late.user) == (1e9 + 10.5, 4, None), "4 were requested"
    assert late.limit_s == 60.0, "it ran beyond what it requested"
    assert (momentary.duration_s, momentary.limit_s) == (0.0, None)


@pytest.mark.parametrize(
    ("headers", "cluster"),
    [
        ((), None),
        (("; MaxNodes: 5",), "5x1"),
        (("; MaxNodes: 5", "; MaxProcs: 12"), "12x1"),
        (("; MaxNodes: 5", "; MaxProcs: " + "9" * 5000), "5x1"),
    ],
)
def test_a_log_names_its_cluster_in_its_header(
    tmp_path: Path, headers: tuple[str, ...], cluster: str
) -> None:
    trace = read_trace(written(tmp_path / "log.swf", *headers, SWF[4]))
    assert (trace.form, trace.cluster) == ("swf", cluster)


def test_mistakes_in_a_log_are_told_with_line_and_column(tmp_path: Path) -> None:
    wrong = SWF[5].replace("60", "soon")
    found = problems(written(tmp_path / "log", *SWF[:5], "1 2 3", wrong))
    assert [(item.line, item.column) for item in found] == [(6, None), (7, 15)]
    assert "18 are needed" in found[0].message
    assert "column 4 is 'soon'" in found[1].message
    long = problems(written(tmp_path / "long", *SWF[:5], SWF[5].replace("60", "9" * 100_000)))
    assert max(len(item.message) for item in long) < 200


def test_a_log_that_began_at_no_time_counts_from_zero(tmp_path: Path) -> None:
    late = written(tmp_path / "log.swf", "; UnixStartTime: " + "9" * 20, SWF[4])
    assert read_trace(late).jobs[0].submitted_at < 1e9


def test_a_csv_whose_columns_have_our_names_needs_no_mapping(tmp_path: Path) -> None:
    path = written(tmp_path / "mine.csv", "submitted,duration,slots", "0,10,0", "1,0,4")
    assert [(job.duration_s, job.slots) for job in read_trace(path).jobs] == [(10.0, 0), (0.0, 4)]


def test_everything_wrong_is_told_at_once_with_line_and_column(tmp_path: Path) -> None:
    path = written(
        tmp_path / "bad.csv",
        "submitted,duration,slots,mode",
        "yesterday,10,1,batch",
        "0,-5,1.5,batch",
        "0,5,1,sometimes",
        "0,5",
    )
    found = problems(path)
    assert [(item.line, item.column) for item in found] == [(2, 1), (3, 3), (3, 6), (4, 7), (5, None)]
    texts = [item.message for item in found]
    assert texts[0] == (
        "column 'submitted' is 'yesterday', and has to be a number or a date like 2017-10-01 08:30:00"
    )
    assert "column 'duration' is '-5'" in texts[1]
    assert "column 'slots' is '1.5', and has to be a whole number" in texts[2]
    assert "one of batch, cycle, interruptible, burst" in texts[3]


def test_of_many_problems_the_first_are_told_and_the_others_counted(tmp_path: Path) -> None:
    path = written(tmp_path / "bad.csv", "submitted,duration,slots", *["x,1,1"] * 95)
    found = problems(path)
    assert len(found) == PROBLEMS_LISTED + 1
    assert found[-1].message == "and 75 more problems like these"


@pytest.mark.parametrize(
    ("lines", "wanted", "said"),
    [
        (("a,b,c", "1,2,3"), {}, "the form of this trace is not known"),
        (("submitted,duration,slot", "1,2,3"), {"form": "csv"}, "no column 'slots' (slots)"),
        (("submitted,duration,slots",), {}, "there is no job in it"),
        ((), {}, "this file is empty"),
        (("", ""), {}, "this file is empty"),
        (
            ("; MaxProcs: 4", "1 0 -1 -1 -1 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1"),
            {},
            "in it: 1 have no running time",
        ),
    ],
)
def test_a_file_that_is_no_trace_is_refused(
    tmp_path: Path, lines: tuple[str, ...], wanted: dict[str, object], said: str
) -> None:
    assert said in problems(written(tmp_path / "none.csv", *lines), **wanted)[0].message


def test_a_column_that_is_not_there_has_its_nearest_name(tmp_path: Path) -> None:
    path = written(tmp_path / "mine.csv", "submit_time,duration,gpus", "1,2,3")
    (found,) = problems(path, columns={Meaning.SUBMITTED: "submit_tme", Meaning.SLOTS: "gpus"})
    assert found.hint == "did you mean 'submit_time'?"


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert "cannot be read: no such file" in problems(str(tmp_path / "missing.csv"))[0].message


@pytest.mark.parametrize("words", ["submitted", "submited=a", "=a", "slots="])
def test_columns_that_say_nothing_are_refused(words: str) -> None:
    with pytest.raises(InvalidInput, match="MEANING=NAME"):
        columns_of(words)


@pytest.mark.parametrize(
    ("text", "at"), [("1970-01-02", 86_400.0), ("1970-01-01T01:00:00+01:00", 0.0), ("soon", None)]
)
def test_dates(text: str, at: float | None) -> None:
    assert parse_time(text) == at
