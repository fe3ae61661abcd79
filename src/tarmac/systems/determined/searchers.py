"""The searchers of an experiment configuration, of both eras: `max_length` of the old, `max_time` of the new.

Part of the table: see `fields`.
"""

from collections.abc import Mapping
from typing import Any

from tarmac.dialects.kinds import number, one_of, yaml12
from tarmac.dialects.schema import Alternatives, Field, ListOf, Record, Shape
from tarmac.dialects.section import Section
from tarmac.systems.determined.schema import COUNT, NO, POSITIVE, TEXT, YES, record, union, whole

SINGLE = "single"

LENGTH_UNITS = ("batches", "records", "epochs")


def length(least: int) -> Record:
    """`{batches: N}`, or another unit."""
    synonyms = {"batch": "batches", "record": "records", "epoch": "epochs", "steps": "batches"}
    return record(dict.fromkeys(LENGTH_UNITS, whole(least)), _one_unit, sparse=True, synonyms=synonyms)


def _one_unit(section: Section, _found: Mapping[str, Any]) -> None:
    units = [unit for unit in LENGTH_UNITS if unit in section]
    if len(units) > 1:
        section.refuse(f"exactly one of {', '.join(LENGTH_UNITS)} is expected, not {' and '.join(units)}")
    elif not units and not any(unit in section.suggestions for unit in LENGTH_UNITS):
        section.refuse(f"one of {', '.join(LENGTH_UNITS)} is missing", "such as {batches: 100}")


def _longest_trial(section: Section, found: Mapping[str, Any]) -> None:
    """Check that an adaptive searcher has the length of its longest trial; `max_time` takes precedence.

    The trial classes of 0.38 use a `max_length` beside it.
    """
    new, old = [name for name in ("max_time", "time_metric") if name in section], "max_length" in section
    if new and len(new) < 2:
        section.missing("max_time" if new == ["time_metric"] else "time_metric", "the two belong together")
    elif not old and not new and not section.suggestions & {"max_time", "max_length"}:
        section.refuse(
            "'max_time' and 'time_metric' are missing", "or 'max_length', as older versions have it"
        )
    if (rungs := section.get("bracket_rungs")) is not None and any(
        rung > found.get("max_rungs", rung) for rung in found.get("bracket_rungs", [])
    ):
        rungs.refuse(f"no bracket has more than max_rungs ({found['max_rungs']}) rungs")


def _searcher(*checks: Any, **fields: Field | Shape) -> Record:
    synonyms = {
        "trials": "max_trials",
        "smaller_better": "smaller_is_better",
        "max_steps": "max_length",
        "target_trial_steps": "max_length",
    }
    return record({**_EVERY_SEARCHER, **fields}, *checks, synonyms=synonyms)


_EVERY_SEARCHER: Mapping[str, Field | Shape] = {
    "metric": Field(
        TEXT, required="the validation metric that is minimised, or maximised with 'smaller_is_better: false'"
    ),
    "smaller_is_better": YES,
    "source_trial_id": COUNT,
    "source_checkpoint_uuid": TEXT,
    "max_length": Alternatives(
        "a length, such as {batches: 100}, or a whole number", scalar=COUNT, table=length(1)
    ),
}
_CONCURRENT = Field(COUNT, 16)
_TRIALS = Field(POSITIVE, required="how many hyperparameter configurations are tried")
_HALVING: Mapping[str, Field | Shape] = {
    "max_trials": _TRIALS,
    "max_concurrent_trials": _CONCURRENT,
    "max_time": POSITIVE,
    "time_metric": TEXT,
    "divisor": Field(number(above=1, of=yaml12, as_written=True), 4),
    "stop_once": NO,
}

SEARCHER = union(
    "name",
    {
        "single": _searcher(),
        "random": _searcher(max_trials=_TRIALS, max_concurrent_trials=_CONCURRENT),
        "grid": _searcher(max_concurrent_trials=_CONCURRENT),
        "adaptive_asha": _searcher(
            _longest_trial,
            **_HALVING,
            mode=Field(one_of(("aggressive", "standard", "conservative")), "standard"),
            max_rungs=Field(POSITIVE, 5),
            bracket_rungs=Field(ListOf(POSITIVE, "a list of numbers of rungs"), []),
        ),
        "async_halving": _searcher(
            _longest_trial, **_HALVING, num_rungs=Field(POSITIVE, required="how many rungs it has")
        ),
    },
    removed=("custom", "adaptive", "adaptive_simple", "sync_halving", "pbt"),
)
