"""A quick copy of a record is the copy that `dataclasses.replace` makes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tarmac.model.copying import changed
from tarmac.model.lifecycle import AttemptState, RunState
from tarmac.model.run import Allocation, Attempt, Run, WorkerPlacement
from tarmac.model.spec import RunSpec

RUN = Run(
    id="r1", spec=RunSpec(name="train", roles=()), user="ada", state=RunState.QUEUED, seq=2, created_at=1.0
)
ATTEMPT = Attempt(
    run_id="r1",
    number=1,
    state=AttemptState.STARTING,
    engine="sim",
    allocation=Allocation(cluster="c", placements=(WorkerPlacement(role="main", replica=0, node="n"),)),
    token="t",
    master_port=1,
    created_at=1.0,
)


@pytest.mark.parametrize(
    ("record", "changes"),
    [
        (RUN, {"seq": 3, "state": RunState.STARTING, "attempt": 1}),
        (RUN, {}),
        (ATTEMPT, {"started_at": 2.0}),
        (ATTEMPT.allocation, {"cluster": "d"}),
    ],
)
def test_it_is_what_replace_makes(record: object, changes: dict[str, object]) -> None:
    before = replace(record)
    copy = changed(record, **changes)
    assert copy == replace(record, **changes)
    assert record == before, "the record itself stays as it is"


def test_a_field_that_is_not_there_is_refused() -> None:
    with pytest.raises(AttributeError):
        changed(RUN, colour="red")
