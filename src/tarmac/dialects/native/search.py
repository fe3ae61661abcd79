"""The field `search` of a native run file, and the ranges among its parameters: its table, readers, writers.

In a file with a search, a parameter with one of `log`, `uniform`, `int` and `choice` is a range; without a
search, parameters are passed on unchanged.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

from tarmac.dialects.kinds import Kind, choice, flag, integer, number, one_of, text, words, yaml12
from tarmac.dialects.located import Items, Scalar, Table
from tarmac.dialects.plain import to_plain
from tarmac.dialects.schema import AS_IT_IS, Alternatives, Field, read_value, record, tuple_of, write_record
from tarmac.dialects.section import Section, Value
from tarmac.model import search as model
from tarmac.model.codec import replace

MOST_TRIALS = 100_000
PRUNERS = ("median", "percentile")
NUMBERS = frozenset({model.RangeKind.INT, model.RangeKind.UNIFORM, model.RangeKind.LOG})

RANGES = {kind.value: kind for kind in model.RangeKind if kind is not model.RangeKind.CONST}

POLICIES: Mapping[str, model.CheckpointPolicy] = {
    "best": model.CheckpointPolicy(experiment_best=1, trial_best=0, trial_latest=0),
    "latest": model.CheckpointPolicy(experiment_best=0, trial_best=1, trial_latest=1),
    "all": model.CheckpointPolicy(every=True),
}
"""The checkpoints that `checkpoints: WORD` keeps after an experiment has ended."""

_METHODS = {"async_halving": "asha", "adaptive": "adaptive_asha", "cmaes": "cma_es"}


def _check(section: Section, found: Mapping[str, Any]) -> None:
    """Report fields that the method needs and the file lacks."""
    method, max_time = found.get("method"), found.get("max_time")
    if method is None:
        return
    compared = "the name under which the code reports what is compared"
    alone = (model.SearchMethod.SINGLE, model.SearchMethod.GRID)
    if method not in (*alone, model.SearchMethod.RANDOM) and not found.get("metric"):
        section.missing("metric", compared)
    if method not in alone and found.get("max_trials") is None:
        section.missing("max_trials", "how many sets of parameters are tried")
    if method in model.HALVING and max_time is None:
        section.missing("max_time", "how long the longest trial is, in steps or in 'time_metric'")
    if found.get("pruner") is None:
        return
    if method not in model.SAMPLERS | {model.SearchMethod.RANDOM}:
        section.refuse(f"a pruner is for random, tpe and cma_es: {method} has its own way of ending trials")
        return
    if not found.get("metric"):
        section.missing("metric", compared)
    if max_time is None:
        section.missing("max_time", "how long a trial is: a pruner looks at ten places on the way")


def _ranges(value: Value, path: tuple[str, ...] = ()) -> Iterator[model.ParameterRange]:
    """The ranges and constants below a mapping."""
    for key, item in value.entries("a mapping from names to values"):
        name = key.node.text if isinstance(key.node, Scalar) else ""
        node = item.node
        if not isinstance(node, Table) or not node.entries:
            yield model.ParameterRange(
                path=(*path, name), kind=model.RangeKind.CONST, values=(to_plain(node),)
            )
            continue
        kinds = [word for word in node.values if word in RANGES]
        if len(kinds) == 1 and set(node.values) <= {kinds[0], "count"}:
            found = _range(item, RANGES[kinds[0]], (*path, name))
            if found is not None:
                yield found
        else:
            yield from _ranges(item, (*path, name))


def _range(value: Value, kind: model.RangeKind, path: tuple[str, ...]) -> model.ParameterRange | None:
    found = read_value(value, record({kind.value: AS_IT_IS, "count": _TRIALS}))
    listed, count = found[kind.value], found.get("count")
    if kind is model.RangeKind.CHOICE:
        if not isinstance(listed.node, Items) or not listed.node.items:
            listed.expected("a list of at least one value")
            return None
        return model.ParameterRange(
            path=path, kind=kind, values=tuple(to_plain(each) for each in listed.node.items)
        )
    bounds = listed.read_list(_WHOLE if kind is model.RangeKind.INT else _NUMBER, "a list of two numbers")
    if isinstance(listed.node, Items) and len(listed.node.items) != 2:
        listed.refuse("two numbers are expected, the lowest value and the highest", f"{kind}: [1, 10]")
        return None
    if len(bounds) != 2:
        return None
    low, high = bounds
    if low >= high:
        listed.refuse(f"the first number ({low:g}) must be less than the second ({high:g})")
        return None
    if kind is model.RangeKind.LOG:
        if low <= 0:
            listed.refuse(f"a logarithmic range is above 0, and {low:g} is not")
            return None
        low, high = math.log10(low), math.log10(high)
    return model.ParameterRange(path=path, kind=kind, low=low, high=high, count=count)


def _written_policy(policy: model.CheckpointPolicy) -> Any:
    word = next((word for word, known in POLICIES.items() if known == policy), None)
    return word or write_record(policy, _POLICY)


_POLICY = record(
    dict.fromkeys(("experiment_best", "trial_best", "trial_latest"), integer(0)), make=model.CheckpointPolicy
)
_CHECKPOINTS = Alternatives(
    f"one of {', '.join(POLICIES)}", scalar=words(POLICIES), table=_POLICY, write=_written_policy
)


_NUMBER = number(of=lambda scalar: yaml12(dataclasses.replace(scalar, quoted=False)))
_WHOLE: Kind[float] = Kind(integer().description, lambda scalar: float(integer().read(scalar)))


def _read_method(scalar: Scalar) -> model.SearchMethod:
    return choice(model.SearchMethod).read(
        Scalar(text=_METHODS.get(scalar.text, scalar.text), quoted=scalar.quoted)
    )


_METHOD = Kind(choice(model.SearchMethod).description, _read_method)


def written_parameters(spec: model.SearchSpec) -> dict[str, Any]:
    """The field `parameters` with the ranges of a search."""
    return model.nested({item.path: written_range(item) for item in spec.space})


def written_range(item: model.ParameterRange) -> Any:
    """A range as in a run file; a constant is written as its value."""
    match item.kind:
        case model.RangeKind.CONST:
            return item.values[0]
        case model.RangeKind.CHOICE:
            return {"choice": list(item.values)}
        case model.RangeKind.INT:
            bounds: list[float] = [int(item.low), int(item.high)]
        case model.RangeKind.UNIFORM:
            bounds = [item.low, item.high]
        case model.RangeKind.LOG:
            bounds = [item.base**item.low, item.base**item.high]
    return {item.kind.value: bounds} | ({"count": item.count} if item.count is not None else {})


_TRIALS = integer(1, MOST_TRIALS)
_COUNT = integer(1)
SEARCH = record(
    {
        "method": Field(
            _METHOD, words="name searcher algorithm", required=f"one of {', '.join(model.SearchMethod)}"
        ),
        "metric": Field(text("the name of a metric"), words="objective monitor"),
        "goal": Field(
            words({"minimize": True, "maximize": False}),
            sets="smaller_is_better",
            words="direction smaller_is_better mode_of_metric",
        ),
        "max_trials": Field(_TRIALS, words="trials num_samples count run_cap n_trials"),
        "max_concurrent_trials": Field(
            integer(0, MOST_TRIALS), words="concurrent parallel max_concurrent n_jobs"
        ),
        "max_slots": _COUNT,
        "max_time": Field(_COUNT, words="max_length max_t max_steps max_epochs"),
        "time_metric": Field(text("the name of a metric"), words="time_attr"),
        "divisor": Field(number(above=1), words="reduction_factor eta"),
        "max_rungs": _COUNT,
        "num_rungs": _COUNT,
        "promotion": flag(),
        "reverse": flag(),
        "seed": integer(0, 2**32 - 1),
        "pruner": one_of(PRUNERS),
        "mode": choice(model.SearchMode),
        "bracket_rungs": tuple_of(_COUNT, "a list of numbers of rungs"),
        "checkpoints": _CHECKPOINTS,
    },
    _check,
    make=model.SearchSpec,
)


def complete_search(run: Section, search: model.SearchSpec | None) -> model.SearchSpec | None:
    """The search of a run with the ranges among its parameters; reports what its method lacks there."""
    parameters = run.get("parameters")
    space = tuple(_ranges(parameters)) if parameters is not None else ()
    if search is None:
        return None
    if search.method is model.SearchMethod.CMA_ES and not any(item.kind in NUMBERS for item in space):
        run["search"].refuse("cma_es moves through ranges of numbers, and 'parameters' has none", "use tpe")
    for item in space if search.method is model.SearchMethod.GRID else ():
        if item.kind in NUMBERS and item.count is None and parameters is not None:
            parameters.refuse(
                f"{item.name}: a grid needs to know how many points the range has",
                f"such as {item.name.rpartition('.')[2]}: {{{item.kind}: [...], count: 5}}",
            )
    return replace(search, space=space)
