"""The searcher and the hyperparameters of a configuration as a `SearchSpec`. Called by `reader`."""

from collections.abc import Iterator, Mapping
from typing import Any

from tarmac.model.search import (
    HALVING,
    CheckpointPolicy,
    ParameterRange,
    RangeKind,
    SearchMethod,
    SearchMode,
    SearchSpec,
)

_SAME = (SearchMethod.SINGLE, SearchMethod.RANDOM, SearchMethod.GRID, SearchMethod.ADAPTIVE_ASHA)
METHODS = {str(method): method for method in _SAME} | {"async_halving": SearchMethod.ASHA}
"""The search method for each searcher's name in the file."""

_KINDS = {
    "const": RangeKind.CONST,
    "int": RangeKind.INT,
    "double": RangeKind.UNIFORM,
    "log": RangeKind.LOG,
    "categorical": RangeKind.CHOICE,
}


def search_of(config: Mapping[str, Any]) -> SearchSpec:
    """The search of a complete configuration.

    Before 0.38, a configuration has `max_length` and no `max_time`, and promotes trials unless it sets
    `stop_once`.
    """
    searcher, storage = config["searcher"], config["checkpoint_storage"] or {}
    method, most = METHODS[searcher["name"]], config["resources"]["max_slots"]
    length = length_of(searcher) if searcher.get("max_time") is None else None
    return SearchSpec(
        method=method,
        metric=searcher["metric"],
        smaller_is_better=searcher["smaller_is_better"],
        space=tuple(ranges(config["hyperparameters"])),
        seed=(config["reproducibility"] or {}).get("experiment_seed") or 0,
        max_trials=searcher.get("max_trials"),
        max_concurrent_trials=searcher.get("max_concurrent_trials") or 0,
        max_time=searcher.get("max_time") or length,
        time_metric=searcher.get("time_metric"),
        divisor=float(searcher.get("divisor") or 4),
        mode=SearchMode(searcher.get("mode") or SearchMode.STANDARD),
        max_rungs=searcher.get("max_rungs") or 5,
        num_rungs=searcher.get("num_rungs"),
        bracket_rungs=tuple(searcher.get("bracket_rungs") or ()),
        promotion=method in HALVING and length is not None and not searcher.get("stop_once"),
        reverse=method is SearchMethod.GRID,
        max_slots=most if most is None or most >= config["resources"]["slots_per_trial"] else None,
        checkpoints=CheckpointPolicy(
            experiment_best=storage.get("save_experiment_best", 0),
            trial_best=storage.get("save_trial_best", 1),
            trial_latest=storage.get("save_trial_latest", 1),
        ),
    )


def ranges(parameters: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[ParameterRange]:
    """The hyperparameters, nested ones by their path."""
    for name, value in parameters.items():
        here = (*path, name)
        if not isinstance(value, Mapping) or not value:
            yield ParameterRange(path=here, kind=RangeKind.CONST, values=(value,))
        elif "type" in value:
            yield _range(value, here)
        else:
            yield from ranges(value, here)


def _range(value: Mapping[str, Any], path: tuple[str, ...]) -> ParameterRange:
    kind = _KINDS[value["type"]]
    if kind is RangeKind.CONST:
        return ParameterRange(path=path, kind=kind, values=(value.get("val"),))
    if kind is RangeKind.CHOICE:
        return ParameterRange(path=path, kind=kind, values=tuple(value["vals"]))
    return ParameterRange(
        path=path,
        kind=kind,
        low=float(value["minval"]),
        high=float(value["maxval"]),
        base=float(value.get("base", 10)),
        count=value.get("count"),
    )


def length_of(searcher: Mapping[str, Any]) -> int | None:
    """The `max_length` of a search from before 0.38, whatever its unit: `{batches: N}` or N."""
    found = searcher.get("max_length")
    if isinstance(found, Mapping):
        found = next((each for each in found.values() if each is not None), None)
    return found if type(found) is int and found > 0 else None
