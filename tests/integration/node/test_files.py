"""The small files that an attempt promises its workers, and the variables that name them."""

from __future__ import annotations

from pathlib import Path

from attempts import Warm, worker, write_attempt


def test_a_promised_file_is_there_and_its_variable_names_it(warm: Warm, tmp_path: Path) -> None:
    """M8: `/mnt/config/parameters.yaml` and PARAMETERS; readable by the run's user alone."""
    attempt = write_attempt(
        tmp_path,
        [worker('cat "$PARAMETERS"; stat -c %a "$PARAMETERS"')],
        files={"config/parameters.yaml": "lr: 0.1\n"},
        mounts=[
            {
                "source": "config/parameters.yaml",
                "target": "/mnt/config/parameters.yaml",
                "variables": ["PARAMETERS"],
            }
        ],
    )
    assert warm.run(attempt)["outcome"] == "completed"
    assert attempt.log().split() == ["lr:", "0.1", "600"]


def test_a_file_that_would_lie_outside_is_a_fault(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [worker("exit 0")], files={"../../../stray": "x"})
    assert warm.run(attempt)["outcome"] == "lost"
    assert not list(tmp_path.rglob("stray"))
