"""`tarmac simulate` as a person and a program use it: side by side, one table, JSON, errors, and Ctrl-C."""

from __future__ import annotations

import csv
import json
import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import closing
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from tarmac.cli.commands import simulate as options
from tarmac.cli.main import main
from tarmac.cli.views.bars import PlayBar
from tarmac.cli.views.errors import BROKEN_PIPE
from tarmac.cli.views.terminal import Terminal
from tarmac.model.cluster import Policy
from tarmac.simulator.changes import EXAMPLES
from tarmac.simulator.forms import FORMS
from warm_commands import WARM

ENVIRONMENT = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200", "TERM": "xterm"}
DATA = Path(__file__).parents[2] / "data" / "traces"
SHOCKWAVE = str(DATA / "shockwave_excerpt.trace")
MURI = str(DATA / "muri_excerpt.csv")


def simulate(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    result = WARM.run(
        ["simulate", *arguments], directory=cwd or Path.cwd(), environment=ENVIRONMENT, limit_s=100.0
    )
    assert result is not None, "the environment is too large"
    return result


def plays(*arguments: str) -> dict[str, dict[str, Any]]:
    """The plays of the first trace, by label, as JSON has them."""
    result = simulate(*arguments, "--json")
    assert result.returncode == 0, result.stderr
    return {play["label"]: play for play in json.loads(result.stdout)["traces"][0]["plays"]}


def test_the_options_name_what_the_simulator_knows() -> None:
    assert tuple(Policy) == options.POLICIES
    assert tuple(FORMS) == options.FORMS
    assert options.EXAMPLES == EXAMPLES


def test_a_log_in_the_standard_format_needs_no_cluster_and_its_left_out_jobs_are_counted(
    tmp_path: Path,
) -> None:
    row = "{} 0 -1 {} 8 -1 -1 8 -1 -1 1 3 1 7 1 -1 -1 -1\n"
    log = tmp_path / "log.swf"
    log.write_text("; MaxProcs: 16\n" + row.format(1, 100) + row.format(2, -1))
    result = simulate(str(log), "--policy", "priority")
    assert result.returncode == 0, result.stderr
    assert "1 jobs on 16x1" in result.stdout
    assert result.stderr.strip().endswith("which are left out: 1")


def test_policies_stand_side_by_side() -> None:
    result = simulate(SHOCKWAVE, "--cluster", "2x4")
    assert result.returncode == 0, result.stderr
    title, heads, *rows = result.stdout.splitlines()
    assert title == "shockwave_excerpt: 40 jobs on 2x4 (8 slots)"
    assert heads.split() == ["priority", "fair_share", "least_attained"]
    words = {row.split("  ")[0] for row in rows}
    assert {"completion, mean", "makespan", "utilisation", "preemptions", "worst, by life"} <= words


def test_estimated_starts_are_compared_with_the_true_ones() -> None:
    result = simulate(SHOCKWAVE, "--cluster", "2x4", "--policy", "priority", "--estimates")
    assert result.returncode == 0, result.stderr
    assert re.search(r"^estimates made +\d+ of \d+$", result.stdout, re.MULTILINE), result.stdout


def test_a_row_for_each_job_adds_up_to_what_is_printed(tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    found = plays(SHOCKWAVE, "--cluster", "2x4", "--limits", "2", "--jobs", str(file))
    with file.open(newline="") as text:
        rows = list(csv.DictReader(text))
    assert len(rows) == 40 * len(found)
    for label, play in found.items():
        mine = [row for row in rows if row["play"] == label]
        assert {row["outcome"] for row in mine} == {"completed"}
        completion_s = [float(row["ended_s"]) - float(row["submitted_s"]) for row in mine]
        assert sum(completion_s) / 40 == pytest.approx(play["completion_mean_s"])
        assert sum(float(row["queueing_s"]) for row in mine) / 40 == pytest.approx(play["queueing_mean_s"])
        assert max(float(row["ended_s"]) for row in mine) == pytest.approx(play["makespan_s"])
        assert sum(int(row["preemptions"]) for row in mine) == play["preemptions"]
        held_slot_s = sum(float(row["held_s"]) * int(row["slots"]) for row in mine)
        assert held_slot_s / (8 * play["makespan_s"]) == pytest.approx(play["utilisation"])
        assert all(float(row["limit_s"]) == 2 * float(row["duration_s"]) for row in mine)
        assert all(float(row["started_s"]) >= float(row["submitted_s"]) for row in mine)


def test_one_table_over_all_traces_with_what_the_user_passes() -> None:
    result = simulate(
        SHOCKWAVE, MURI, "--policy", "priority", "--table", "--published", "mine=5000", "--cluster", "8x8"
    )
    assert result.returncode == 0, result.stderr
    lines = [line for line in result.stdout.splitlines() if "_excerpt" in line]
    assert [line.split()[0] for line in lines] == ["shockwave_excerpt"] * 2 + ["muri_excerpt"] * 2
    assert re.search(r"mine, published +5,000", lines[1])


def test_json_is_for_programs() -> None:
    found = plays(SHOCKWAVE, "--cluster", "2x4", "--policy", "least-attained", "--limits", "1.5")
    (play,) = found.values()
    assert (play["policy"], play["preemption"], play["limits"]) == ("least_attained", True, 1.5)
    assert (play["slots"], play["ended"], play["unfinished"], play["complete"]) == (8, 40, 0, True)
    assert play["completion_p50_s"] <= play["completion_p99_s"]
    assert play["fairness"].keys() == {"worst", "unfair_share"}


def test_what_if_stands_beside_what_is() -> None:
    found = plays(MURI, "--what-if", "nodes=+8", "--what-if", "policy=least_attained")
    assert list(found) == ["priority", "priority, nodes=+8", "priority, policy=least_attained"]
    assert found["priority, nodes=+8"]["slots"] == 128
    before, after = (found[label]["queueing_mean_s"] for label in ("priority", "priority, nodes=+8"))
    assert after < before
    assert found["priority, policy=least_attained"]["preemption"] is True


def test_rentals_stand_beside_the_same_play_without_them(tmp_path: Path) -> None:
    """A declaration as text, and one in a file, under every policy."""
    rule = "when: wait > 1h, rate: 2.50/h"
    file = tmp_path / "rent.yaml"
    file.write_text("when: wait > 1h\nbudget: 40\nshapes:\n  - {id: big, slots: 8, rate: 20/h}\n")
    rows_to = tmp_path / "jobs.csv"
    found = plays(
        *(SHOCKWAVE, "--cluster", "2x4", "--burst", rule, "--burst", str(file), "--jobs", str(rows_to))
    )
    assert len(found) == 9
    with rows_to.open(newline="") as text:
        rows = list(csv.DictReader(text))
    for policy in options.POLICIES:
        plain, rented, limited = found[policy], found[f"{policy}, {rule}"], found[f"{policy}, {file}"]
        assert (plain["rentals"], plain["saved"]) == (None, None)
        assert rented["saved"]["queueing_mean_s"] == plain["queueing_mean_s"] - rented["queueing_mean_s"] > 0
        assert rented["saved"]["completion_mean_s"] > 0
        assert rented["rentals"]["jobs"] > limited["rentals"]["jobs"] > 0
        assert 0 < limited["rentals"]["cost"] <= 40 < rented["rentals"]["cost"]
        assert limited["rentals"]["without_offer"] > 0
        assert rented["ended"] == limited["ended"] == 40
        costs = [row["cost"] for row in rows if row["play"] == f"{policy}, {rule}" and row["cost"]]
        assert len(costs) == rented["rentals"]["jobs"]
        assert sum(map(float, costs)) == pytest.approx(rented["rentals"]["cost"])
    shown = simulate(SHOCKWAVE, "--cluster", "2x4", "--policy", "priority", "--burst", rule).stdout
    assert re.search(r"^cost of rented machines +[\d.,]+$", shown, re.MULTILINE), shown
    assert re.search(r"^queueing saved, p99 +\S+", shown, re.MULTILINE), shown


def test_jobs_that_never_fit_are_reported_not_lost(tmp_path: Path) -> None:
    trace = tmp_path / "big.csv"
    trace.write_text("submitted,duration,slots,name\n0,10,4,small\n0,10,64,huge\n")
    result = simulate(str(trace), "--cluster", "1x8", "--policy", "priority")
    assert "1 can never start: huge (64 slots)" in result.stderr
    assert re.search(r"jobs that never fit +1\n", result.stdout)
    assert re.search(r"jobs ended +1\n", result.stdout)


def test_a_cluster_may_be_described_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text(
        "name: site\nnodes:\n  - {count: 2, slots: 4}\n  - {count: 1, slots: 8}\n"
    )
    result = simulate(SHOCKWAVE, "--cluster", "site.yaml", "--policy", "priority", cwd=tmp_path)
    assert "on 2x4 + 1x8 (16 slots)" in result.stdout, result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name traces to play, or --history"),
        ((SHOCKWAVE, "--history"), "name traces to play, or --history"),
        ((SHOCKWAVE, "--policy", "fair-shar"), "did you mean fair_share?"),
        ((SHOCKWAVE, "--cluster", "8by8"), "neither nodes x slots, such as 64x8, nor a file"),
        ((SHOCKWAVE, "--from", "soon"), "write a date such as 2017-10-01"),
        ((SHOCKWAVE, "--what-if", "nodes=-8"), "0 nodes would be left"),
        ((SHOCKWAVE, "--burst", "wait > 2h"), "wait > 2h: no such file"),
        ((SHOCKWAVE, "--burst", "when: 2h, rate: 1/h"), "--burst:1:8: when: a rule such as: wait > 2h is"),
        ((SHOCKWAVE, "--burst", "rate: 1/h"), "'when' is missing"),
        ((SHOCKWAVE, "--burst", "when: wait > 2h"), "'rate' is missing"),
        ((SHOCKWAVE, "--burst", "when: wait > 2h, rate: 1/h, shapes: []"), "cannot stand beside 'shapes'"),
        (
            (SHOCKWAVE, "--burst", "rent.yaml"),
            "rent.yaml:3:12: shapes[0].rate: money per hour such as 3.00/h",
        ),
        ((SHOCKWAVE, "--columns", "slot=a"), "did you mean slots=NAME?"),
        ((SHOCKWAVE, "--plot", "plot.pdf"), "ends in .png or .svg"),
        ((SHOCKWAVE, "--jobs", "nowhere/jobs.csv"), "there is no directory 'nowhere'"),
        ((SHOCKWAVE, "--jobs", "."), "this is a directory"),
        ((SHOCKWAVE, "--published", "SRTF"), "not of the form NAME=SECONDS"),
        ((SHOCKWAVE, "--published", "SRTF=nan"), "not of the form NAME=SECONDS"),
        ((SHOCKWAVE, "--limits", "nan"), "a factor of 1 or more"),
        ((SHOCKWAVE, "--cluster", "0x8"), "1 to 99999 nodes of 1 to 9999 slots"),
        ((SHOCKWAVE, "--cluster", "."), "is a directory, not a cluster file"),
        ((SHOCKWAVE, "--cluster", "bytes"), "bytes:2: this is not UTF-8 text"),
        ((SHOCKWAVE, "--plot", "folder.svg"), "this is a directory"),
        ((SHOCKWAVE, "--plot", "nowhere/plot.svg"), "there is no directory 'nowhere'"),
        (("missing.csv",), "missing.csv: it cannot be read"),
        (("folder.svg",), "folder.svg: it cannot be read: is a directory"),
        (("bytes",), "bytes: this is not a text file"),
        (("few.csv",), "few.csv:1: the form of this trace is not known"),
        (("few.csv", "--columns", "submitted=at,duration=took,slots=n"), "few.csv:1: no column 'n' (slots)"),
        (("wide.csv", "--cluster", "1x8"), "wide.csv:2:5: column 'slots' is '99999999999999999999'"),
        (("long.csv", "--cluster", "1x8"), "long.csv:2: this line is not CSV"),
    ],
)
def test_wrong_words_are_refused_with_what_is_meant(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.svg").mkdir()
    (tmp_path / "bytes").write_bytes(bytes(range(256)))
    (tmp_path / "few.csv").write_text("at,took\n0,10\n")
    (tmp_path / "rent.yaml").write_text("when: wait > 2h\nshapes:\n  - {rate: 1, id: a, slots: 8}\n")
    (tmp_path / "wide.csv").write_text("submitted,duration,slots\n0,1,99999999999999999999\n")
    (tmp_path / "long.csv").write_text(f"submitted,duration,slots\n0,1,{'1' * 200_000}\n")
    with pytest.raises(SystemExit) as end:
        main(["simulate", *arguments])
    out, err = capsys.readouterr()
    assert (end.value.code, out) == (2, "")
    assert said in err
    assert err.startswith("error: ")


def test_what_cannot_be_drawn_is_told_after_the_figures(tmp_path: Path) -> None:
    """No room for the picture when the play is over: what the play brought is not lost with it."""
    picture = tmp_path / "plot.svg"
    arguments = ["simulate", SHOCKWAVE, "--policy", "priority", "--plot", str(picture)]
    result = subprocess.run(
        ["bash", "-c", 'ulimit -f 2; exec "$@"', "bash", sys.executable, "-m", "tarmac.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=ENVIRONMENT,
        timeout=100,
    )
    assert result.returncode == 2
    assert "completion, mean" in result.stdout
    assert result.stderr.endswith(f"error: --plot {str(picture)!r}: it cannot be written: file too large\n")
    assert not picture.exists()


def test_a_pipe_that_breaks_is_no_error() -> None:
    """As with `tarmac simulate --json | head`."""
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run(
        [sys.executable, "-m", "tarmac.cli", "simulate", SHOCKWAVE, "--policy", "priority", "--json"],
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
        env=ENVIRONMENT,
        timeout=100,
    )
    os.close(writer)
    assert (result.returncode, result.stderr) == (BROKEN_PIPE, b"")


def test_wrong_traces_are_told_all_at_once_with_their_lines(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("submitted,duration,slots\n0,x,1\n0,1,y\n")
    result = simulate("a.csv", "b.csv", "--cluster", "1x8", cwd=tmp_path)
    assert result.returncode == 2
    places = re.findall(r"error: (\S+): column '(\w+)'", result.stderr)
    assert places == [
        ("a.csv:2:3", "duration"),
        ("a.csv:3:5", "slots"),
        ("b.csv:2:3", "duration"),
        ("b.csv:3:5", "slots"),
    ]


def test_a_trace_without_a_cluster_of_its_own_wants_one(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("submitted,duration,slots\n0,1,1\n")
    result = simulate("a.csv", cwd=tmp_path)
    assert result.returncode == 2
    assert "name one with --cluster" in result.stderr


@pytest.mark.heavy
@pytest.mark.parametrize("policies", ["priority", "priority,fair_share"], ids=["here", "in processes"])
def test_interrupted_it_prints_what_is_known_marked_partial(tmp_path: Path, policies: str) -> None:
    trace = tmp_path / "long.csv"
    trace.write_text(
        "submitted,duration,slots\n" + "".join(f"{number * 5},50,1\n" for number in range(60_000))
    )
    ours, theirs = pty.openpty()  # a terminal on stderr: its bar says that the play has begun
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "tarmac.cli", "simulate", str(trace)),
            *("--cluster", "1x16", "--policy", policies),
        ],
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        env=ENVIRONMENT,
    )
    os.close(theirs)
    seen = b""
    while b"jobs," not in seen:
        seen += os.read(ours, 4096)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    os.close(ours)
    assert process.returncode == 130
    assert re.search(r"jobs not ended +[1-9]", out)
    assert "partial" in out


def test_the_bar_shows_how_far_it_is_on_a_terminal_alone() -> None:
    moment = [0.0]
    for width, shown in ((80, True), (None, False)):
        stream = StringIO()
        moment[0] = 0.0
        with closing(PlayBar(stream, Terminal(width=width), now=lambda: moment[0])) as bar:
            bar.show(1, 100)
            moment[0] = 2.0
            bar.show(50, 100)
        assert ("50/100 jobs, 50%, 25/s, 2.0s left" in stream.getvalue()) is shown
        assert "1/100 jobs" not in stream.getvalue(), "nothing is drawn at once: most plays are short"
        assert stream.getvalue().endswith("\r\x1b[K") is shown
