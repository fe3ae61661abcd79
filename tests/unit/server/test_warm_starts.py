"""Configurations of Determined that begin with a checkpoint: of a trial by its number, or by its UUID."""

from __future__ import annotations

import pytest

from histories import new_run
from scratch_store import ScratchStore
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput
from tarmac.model.run_records import NumberKind, RunRecord, RunRecordKind
from tarmac.model.spec import RunSpec
from tarmac.systems.determined.gateway.specs import with_source
from tarmac.systems.registry import read

UUID = "3dfe5b86-8a5b-4b92-9bbb-16c4b9d62681"


def spec_of(searcher: str) -> RunSpec:
    text = f"entrypoint: python3 train.py\nsearcher: {{name: single, metric: x{searcher}}}\n"
    return read(text, filename="const.yaml", directory="/home/ada").spec


def inputs(spec: RunSpec) -> tuple[str, ...]:
    """The inputs with the source, where trial 1 is the run r1, and r2 has reported a checkpoint."""
    store = ScratchStore()
    store.create_runs([new_run("r1"), new_run("r2")])
    assert store.run_records.put(
        RunRecord(run_id="r2", kind=RunRecordKind.CHECKPOINT, name=UUID, attempt=1, at=1.0)
    )
    assert store.numbers.numbers(NumberKind.TRIAL, ["r1"]) == {"r1": 1}
    return with_source(spec, None, store=store, numbers=store.numbers).input_artifacts


@pytest.mark.parametrize(
    ("searcher", "found"),
    [
        ("", ()),
        (", source_trial_id: 1", ("r1",)),
        (f", source_checkpoint_uuid: {UUID}", ("r2",)),
        (", source_checkpoint_uuid: 00000000-0000-0000-0000-000000000000", ()),
    ],
)
def test_a_source_is_an_input(searcher: str, found: tuple[str, ...]) -> None:
    assert inputs(spec_of(searcher)) == found


def test_a_source_that_is_an_input_already_stays_as_it_is() -> None:
    spec = replace(spec_of(", source_trial_id: 1"), input_artifacts=("r1.checkpoint.4",))
    assert inputs(spec) == ("r1.checkpoint.4",)


def test_a_trial_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidInput, match="there is no trial 7"):
        inputs(spec_of(", source_trial_id: 7"))
