"""`--as mcli`: the tables of the source document, line for line, with the clock and the zone held still."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from answers import a_run, a_summary
from tarmac.cli.views.terminal import Terminal
from tarmac.systems.mcli.display import DISPLAY

PLAIN = Terminal()
CREATED = datetime(2022, 6, 12, 18, 53, 10, tzinfo=UTC).timestamp()
RAN = {
    "state": "running",
    "outcome": None,
    "mode": "batch",
    "attempt": 1,
    "preemptions": 0,
    "cause_code": None,
}


@pytest.fixture(autouse=True)
def _zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def summary(**changed: Any) -> dict[str, Any]:
    """A run of the list, as the server answers it."""
    run = {**RAN, "id": "r1", "name": "hello-world-1337", "slots": 0, "created_at": CREATED}
    return {**run, "started_at": None, "ended_at": None, **changed}


HEAD = "NAME                 GPU_NUM   CREATED_TIME          START_TIME  END_TIME   STATUS"
HEAD_STARTED = "NAME                 GPU_NUM   CREATED_TIME          START_TIME            END_TIME   STATUS"
HEAD_ENDED = (
    "NAME                 GPU_NUM   CREATED_TIME          START_TIME            END_TIME             STATUS"
)
ROW = "hello-world-1337     0         2022-06-12 06:53 PM   "
STARTED_AT, ENDED_AT = CREATED + 60, CREATED + 360


@pytest.mark.parametrize(
    ("changed", "head", "rest"),
    [
        ({"state": "queued"}, HEAD, "-           -          Queued"),
        ({"state": "starting"}, HEAD, "-           -          Starting"),
        ({"started_at": STARTED_AT}, HEAD_STARTED, "2022-06-12 06:54 PM   -          Running"),
        (
            {"state": "ended", "outcome": "completed", "started_at": STARTED_AT, "ended_at": ENDED_AT},
            HEAD_ENDED,
            "2022-06-12 06:54 PM   2022-06-12 06:59 PM  Completed",
        ),
    ],
    ids=["queued", "starting", "running", "completed"],
)
def test_get_runs_is_the_table_of_the_document(changed: dict[str, Any], head: str, rest: str) -> None:
    """M4: name, GPUs, created, start, end, status."""
    assert DISPLAY.runs([a_summary(summary(**changed))], PLAIN) == f"{head}\n{ROW}{rest}"


SOURCE = (
    "cluster: r1z1\ncommand: |\n  echo Start\n  sleep 2\n  echo 'Hello World!!'\ngpu_num: 0\nimage: bash\n"
)
STARTED = datetime(2023, 3, 27, 11, 42, 10, tzinfo=UTC).timestamp()


def described(**changed: Any) -> str:
    """What `show --as mcli` prints of the document's run."""
    spec = {"target": {"cluster": "r1z1"}, "environment": {"image": "bash"}, "roles": [{}]}
    run = {**RAN, "id": "r1", "name": "hello-world-s1ZGyv", "slots": 0, "spec": spec, "source": SOURCE}
    run["dialect"] = "native"
    times = {"created_at": STARTED - 4, "started_at": STARTED, "ended_at": STARTED + 3.9}
    return DISPLAY.run(a_run({**run, **times, **changed}), [], PLAIN)


def test_describe_run_is_the_page_of_the_document() -> None:
    """M9: metadata, lifecycle states with start, end and duration, the submitted YAML."""
    assert described(state="ended", outcome="completed") == (
        "Run Metadata\n"
        "Run Name     hello-world-s1ZGyv\n"
        "Cluster      r1z1\n"
        "Image        bash\n"
        "GPU Type     None\n"
        "GPU Num      0\n"
        "\n"
        "Run Lifecycle\n"
        "STATUS     START_TIME           END_TIME             DURATION\n"
        "PENDING    2023-03-27 11:42 AM  2023-03-27 11:42 AM  4s\n"
        "RUNNING    2023-03-27 11:42 AM  2023-03-27 11:42 AM  3s\n"
        "COMPLETED  2023-03-27 11:42 AM  --\n"
        "\n"
        "Submitted YAML\n" + SOURCE.rstrip()
    )


def test_what_has_not_come_yet_is_a_dash() -> None:
    waiting = described(state="queued", started_at=None, ended_at=None).splitlines()
    assert [line.split()[1:] for line in waiting if line.startswith(("RUNNING", "COMPLETED"))] == [
        ["-", "-", "-"],
        ["-", "--"],
    ]


def test_a_run_that_failed_is_not_called_completed() -> None:
    assert "FAILED   2023-03-27 11:42 AM  --" in described(state="ended", outcome="failed")


def test_an_image_that_could_not_be_pulled_is_in_its_own_words_with_the_reason() -> None:
    """M6: as its later versions have it, a row below the others of the metadata."""
    cause = {"code": "image_pull", "message": "n1: there is no image team/box (check the name)"}
    end = {"state": "ended", "outcome": "failed", "cause": cause, "cause_code": "image_pull"}
    page = described(started_at=None, **end)
    assert "GPU Num      0\nReason       n1: there is no image team/box (check the name)\n\n" in page
    assert "FAILED_PULL  2023-03-27 11:42 AM  --" in page


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0s"), (59.9, "59s"), (60, "1min"), (3599, "59min"), (3600, "1hr"), (200_000, "2d")],
)
def test_durations_are_in_their_largest_unit(seconds: float, shown: str) -> None:
    page = described(state="ended", outcome="completed", ended_at=STARTED + seconds)
    assert next(line for line in page.splitlines() if line.startswith("RUNNING")).endswith(f"  {shown}")
