"""The searchers of an experiment configuration, of both eras: `max_length` of the old, `max_time` of the new.

Part of the table: see `table`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tarmac.dialects.determined.schema import (
    Alternatives,
    Choice,
    Field,
    Flag,
    ListOf,
    Real,
    Record,
    Union,
    Whole,
    Word,
)
from tarmac.dialects.section import Section

LENGTH_UNITS = ("batches", "records", "epochs")
SUPPORTED = "single"


def length(least: int) -> Record:
    """`{batches: N}` or the like."""
    return Record(
        fields={unit: Field(shape=Whole(least=least)) for unit in LENGTH_UNITS},
        sparse=True,
        checks=(_one_unit,),
        synonyms={"batch": "batches", "record": "records", "epoch": "epochs", "steps": "batches"},
    )


def _one_unit(section: Section, _found: Mapping[str, Any]) -> None:
    given = [unit for unit in LENGTH_UNITS if unit in section]
    if len(given) > 1:
        section.refuse(f"exactly one of {', '.join(LENGTH_UNITS)} is expected, not {' and '.join(given)}")
    elif not given and not any(unit in section.meant for unit in LENGTH_UNITS):
        section.refuse(f"one of {', '.join(LENGTH_UNITS)} is missing", "such as {batches: 100}")


def _times_of_one_era(section: Section, found: Mapping[str, Any]) -> None:
    """An adaptive searcher needs how long its longest trial is: one way of saying so."""
    new, old = [name for name in ("max_time", "time_metric") if name in section], "max_length" in section
    if old and new:
        section.refuse("max_length and max_time say the same in two ways", "keep max_time and time_metric")
    elif new and len(new) < 2:
        section.missing("max_time" if new == ["time_metric"] else "time_metric", "the two belong together")
    elif not old and not new and not section.meant & {"max_time", "max_length"}:
        section.refuse(
            "'max_time' and 'time_metric' are missing", "or 'max_length', as older versions have it"
        )
    if (rungs := section.get("bracket_rungs")) is not None and any(
        rung > found.get("max_rungs", rung) for rung in found.get("bracket_rungs", [])
    ):
        rungs.refuse(f"no bracket has more than max_rungs ({found['max_rungs']}) rungs")


_LENGTH = Alternatives(
    wanted="a length, such as {batches: 100}, or a whole number",
    scalar=Whole(least=0),
    table=length(1),
)
_POSITIVE = Whole(least=1)
_METRIC = "the validation metric that is minimised, or maximised with 'smaller_is_better: false'"

_COMMON: Mapping[str, Field] = {
    "metric": Field(shape=Word(), required=_METRIC),
    "smaller_is_better": Field(shape=Flag(), default=True),
    "source_trial_id": Field(shape=Whole(least=0)),
    "source_checkpoint_uuid": Field(shape=Word()),
}
_MAX_LENGTH: Mapping[str, Field] = {"max_length": Field(shape=_LENGTH)}
_CONCURRENT: Mapping[str, Field] = {"max_concurrent_trials": Field(shape=Whole(least=0), default=16)}
_TRIALS: Mapping[str, Field] = {
    "max_trials": Field(shape=_POSITIVE, required="how many hyperparameter configurations are tried"),
}
_HALVING: Mapping[str, Field] = {
    **_MAX_LENGTH,
    **_TRIALS,
    **_CONCURRENT,
    "max_time": Field(shape=_POSITIVE),
    "time_metric": Field(shape=Word()),
    "divisor": Field(shape=Real(above=1), default=4),
    "stop_once": Field(shape=Flag(), default=False),
}
_SYNONYMS = {"trials": "max_trials", "smaller_better": "smaller_is_better", "max_steps": "max_length"}
_GONE = "has been removed and is not valid for new experiments"

SEARCHER = Union(
    key="name",
    cases={
        "single": Record(fields={**_COMMON, **_MAX_LENGTH}, synonyms=_SYNONYMS),
        "random": Record(fields={**_COMMON, **_MAX_LENGTH, **_TRIALS, **_CONCURRENT}, synonyms=_SYNONYMS),
        "grid": Record(fields={**_COMMON, **_MAX_LENGTH, **_CONCURRENT}, synonyms=_SYNONYMS),
        "adaptive_asha": Record(
            fields={
                **_COMMON,
                **_HALVING,
                "mode": Field(
                    shape=Choice(words=("aggressive", "standard", "conservative")), default="standard"
                ),
                "max_rungs": Field(shape=_POSITIVE, default=5),
                "bracket_rungs": Field(
                    shape=ListOf(item=_POSITIVE, wanted="a list of numbers of rungs"), default=[]
                ),
            },
            checks=(_times_of_one_era,),
            synonyms=_SYNONYMS,
        ),
        "async_halving": Record(
            fields={
                **_COMMON,
                **_HALVING,
                "num_rungs": Field(shape=_POSITIVE, required="how many rungs it has"),
            },
            checks=(_times_of_one_era,),
            synonyms=_SYNONYMS,
        ),
    },
    removed={
        **dict.fromkeys(("custom", "adaptive", "adaptive_simple", "sync_halving", "pbt"), _GONE),
    },
)
