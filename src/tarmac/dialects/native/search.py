"""The field `search` of a native run file, and the ranges among its parameters: reader and writer.

Called by the native reader and view. In a file with a search, a parameter with one of `log`, `uniform`, `int`
and `choice` is a range; without a search, parameters are passed on unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from tarmac.dialects.kinds import Kind, Misfit, choice, flag, integer, number, one_of, text
from tarmac.dialects.located import Items, Scalar, Table
from tarmac.dialects.plain import to_plain
from tarmac.dialects.section import Fields, Section, Value, words_for
from tarmac.model.search import (
    DEFAULT_CONCURRENT_TRIALS,
    DEFAULT_DIVISOR,
    DEFAULT_MAX_RUNGS,
    HALVING,
    SAMPLERS,
    CheckpointPolicy,
    ParameterRange,
    RangeKind,
    SearchMethod,
    SearchMode,
    SearchSpec,
    nested,
)

MOST_TRIALS = 100_000
GOALS = ("minimize", "maximize")
PRUNERS = ("median", "percentile")
NUMBERS = frozenset({RangeKind.INT, RangeKind.UNIFORM, RangeKind.LOG})

SEARCH = Fields(
    known=frozenset(
        {"method", "metric", "goal", "seed", "max_trials", "max_concurrent_trials", "max_slots"}
        | {"max_time", "time_metric", "divisor", "mode", "max_rungs", "num_rungs", "bracket_rungs"}
        | {"promotion", "reverse", "checkpoints", "pruner"}
    ),
    synonyms=words_for(
        method="name searcher algorithm",
        metric="objective monitor",
        goal="direction smaller_is_better mode_of_metric",
        max_trials="trials num_samples count run_cap n_trials",
        max_concurrent_trials="concurrent parallel max_concurrent n_jobs",
        max_time="max_length max_t max_steps max_epochs",
        time_metric="time_attr",
        divisor="reduction_factor eta",
    ),
)

RANGES = {kind.value: kind for kind in RangeKind if kind is not RangeKind.CONST}

POLICIES: Mapping[str, CheckpointPolicy] = {
    "best": CheckpointPolicy(experiment_best=1, trial_best=0, trial_latest=0),
    "latest": CheckpointPolicy(experiment_best=0, trial_best=1, trial_latest=1),
    "all": CheckpointPolicy(every=True),
}
"""The checkpoints that `checkpoints: WORD` keeps after an experiment has ended."""

_METHODS = {"async_halving": "asha", "adaptive": "adaptive_asha", "cmaes": "cma_es"}


def read_search(run: Section) -> SearchSpec | None:
    """The search with the ranges among the parameters; None if the file has none."""
    value = run.get("search")
    section = value.section(SEARCH) if value is not None else None
    if section is None:
        return None
    method = section.read("method", _METHOD, None)
    if "method" not in section:
        section.missing("method", f"one of {', '.join(SearchMethod)}")
    parameters = run.get("parameters")
    space = tuple(_ranges(parameters)) if parameters is not None else ()
    spec = SearchSpec(
        method=method or SearchMethod.RANDOM,
        metric=section.read("metric", text("the name of a metric"), ""),
        smaller_is_better=section.read("goal", one_of(GOALS), GOALS[0]) == GOALS[0],
        space=space,
        seed=section.read("seed", integer(0, 2**32 - 1), 0),
        max_trials=section.read("max_trials", integer(1, MOST_TRIALS), None),
        max_concurrent_trials=section.read(
            "max_concurrent_trials", integer(0, MOST_TRIALS), DEFAULT_CONCURRENT_TRIALS
        ),
        max_slots=section.read("max_slots", integer(1), None),
        max_time=section.read("max_time", integer(1), None),
        time_metric=section.read("time_metric", text("the name of a metric"), None),
        divisor=section.read("divisor", number(above=1), DEFAULT_DIVISOR),
        mode=section.read("mode", choice(SearchMode), SearchMode.STANDARD),
        max_rungs=section.read("max_rungs", integer(1), DEFAULT_MAX_RUNGS),
        num_rungs=section.read("num_rungs", integer(1), None),
        bracket_rungs=section.read_list("bracket_rungs", integer(1), "a list of numbers of rungs"),
        promotion=section.read("promotion", flag(), False),
        reverse=section.read("reverse", flag(), False),
        checkpoints=_policy(section),
        pruner=section.read("pruner", one_of(PRUNERS), None),
    )
    if method is not None:
        _check(section, spec, parameters)
    return spec


def _check(section: Section, spec: SearchSpec, parameters: Value | None) -> None:
    """Report fields that the method needs and the file lacks."""
    method = spec.method
    if method not in (SearchMethod.SINGLE, SearchMethod.GRID, SearchMethod.RANDOM) and not spec.metric:
        section.missing("metric", "the name under which the code reports what is compared")
    if method not in (SearchMethod.SINGLE, SearchMethod.GRID) and spec.max_trials is None:
        section.missing("max_trials", "how many sets of parameters are tried")
    if method in HALVING and spec.max_time is None:
        section.missing("max_time", "how long the longest trial is, in steps or in 'time_metric'")
    if method is SearchMethod.CMA_ES and not any(item.kind in NUMBERS for item in spec.space):
        section.refuse("cma_es moves through ranges of numbers, and 'parameters' has none", "use tpe")
    if spec.pruner is not None:
        _check_pruner(section, spec)
    if method is SearchMethod.GRID:
        for item in spec.space:
            if item.kind in NUMBERS and item.count is None and parameters is not None:
                parameters.refuse(
                    f"{item.name}: a grid needs to know how many points the range has",
                    f"such as {item.name.rpartition('.')[2]}: {{{item.kind}: [...], count: 5}}",
                )


def _check_pruner(section: Section, spec: SearchSpec) -> None:
    if spec.method not in SAMPLERS | {SearchMethod.RANDOM}:
        section.refuse(
            f"a pruner is for random, tpe and cma_es: {spec.method} has its own way of ending trials"
        )
        return
    if not spec.metric:
        section.missing("metric", "the name under which the code reports what is compared")
    if spec.max_time is None:
        section.missing("max_time", "how long a trial is: a pruner looks at ten places on the way")


def _ranges(value: Value, path: tuple[str, ...] = ()) -> Iterator[ParameterRange]:
    """The ranges and constants below a mapping."""
    for key, item in value.entries("a mapping from names to values"):
        name = key.node.text if isinstance(key.node, Scalar) else ""
        node = item.node
        if not isinstance(node, Table) or not node.entries:
            yield ParameterRange(path=(*path, name), kind=RangeKind.CONST, values=(to_plain(node),))
            continue
        kinds = [word for word in node.values if word in RANGES]
        if len(kinds) == 1 and set(node.values) <= {kinds[0], "count"}:
            found = _range(item, RANGES[kinds[0]], (*path, name))
            if found is not None:
                yield found
        else:
            yield from _ranges(item, (*path, name))


def _range(value: Value, kind: RangeKind, path: tuple[str, ...]) -> ParameterRange | None:
    section = value.section(Fields(known=frozenset({kind.value, "count"})))
    assert section is not None, "a table was seen"
    listed = section.get(kind.value)
    assert listed is not None, "its word was seen"
    count = section.read("count", integer(1, MOST_TRIALS), None)
    if kind is RangeKind.CHOICE:
        if not isinstance(listed.node, Items) or not listed.node.items:
            listed.expected("a list of at least one value")
            return None
        return ParameterRange(
            path=path, kind=kind, values=tuple(to_plain(each) for each in listed.node.items)
        )
    number_of: Kind[float] = _WHOLE if kind is RangeKind.INT else _NUMBER
    bounds = listed.read_list(number_of, "a list of two numbers")
    if not isinstance(listed.node, Items) or len(bounds) != 2:
        if isinstance(listed.node, Items) and len(listed.node.items) != 2:
            listed.refuse("two numbers are expected, the lowest value and the highest", f"{kind}: [1, 10]")
        return None
    low, high = float(bounds[0]), float(bounds[1])
    if low >= high:
        listed.refuse(f"the first number ({bounds[0]:g}) must be less than the second ({bounds[1]:g})")
        return None
    if kind is RangeKind.LOG:
        if low <= 0:
            listed.refuse(f"a logarithmic range is above 0, and {low:g} is not")
            return None
        low, high = math.log10(low), math.log10(high)
    return ParameterRange(path=path, kind=kind, low=low, high=high, count=count)


def _policy(section: Section) -> CheckpointPolicy:
    value = section.get("checkpoints")
    if value is None:
        return CheckpointPolicy()
    if isinstance(value.node, Table):
        counts = value.section(Fields(known=frozenset({"experiment_best", "trial_best", "trial_latest"})))
        assert counts is not None, "a table was seen"
        return CheckpointPolicy(
            experiment_best=counts.read("experiment_best", integer(0), 0),
            trial_best=counts.read("trial_best", integer(0), 1),
            trial_latest=counts.read("trial_latest", integer(0), 1),
        )
    return POLICIES[value.read(one_of(tuple(POLICIES)), "latest")]


def _read_number(scalar: Scalar) -> float:
    try:
        found = float(scalar.text)
    except ValueError:
        raise Misfit() from None
    if not math.isfinite(found):
        raise Misfit()
    return found


_NUMBER = Kind("a number", _read_number)
_WHOLE: Kind[float] = Kind(integer().description, lambda scalar: float(integer().read(scalar)))


def _read_method(scalar: Scalar) -> SearchMethod:
    return choice(SearchMethod).read(
        Scalar(text=_METHODS.get(scalar.text, scalar.text), quoted=scalar.quoted)
    )


_METHOD = Kind(choice(SearchMethod).description, _read_method)


def written_search(spec: SearchSpec) -> dict[str, Any]:
    """The field `search` for a spec."""
    usual = SearchSpec(method=spec.method)
    fields = {
        name: getattr(spec, name)
        for name in (
            *("max_trials", "max_concurrent_trials", "max_slots", "max_time", "time_metric", "divisor"),
            *("max_rungs", "num_rungs", "promotion", "reverse", "seed", "pruner"),
        )
        if getattr(spec, name) != getattr(usual, name)
    }
    return {
        "method": spec.method.value,
        **({"metric": spec.metric} if spec.metric else {}),
        **({"goal": GOALS[1]} if not spec.smaller_is_better else {}),
        **fields,
        **({"mode": spec.mode.value} if spec.mode is not usual.mode else {}),
        **({"bracket_rungs": list(spec.bracket_rungs)} if spec.bracket_rungs else {}),
        **(
            {"checkpoints": _written_policy(spec.checkpoints)}
            if spec.checkpoints != usual.checkpoints
            else {}
        ),
    }


def written_parameters(spec: SearchSpec) -> dict[str, Any]:
    """The field `parameters` with the ranges of a search."""
    return nested({item.path: written_range(item) for item in spec.space})


def written_range(item: ParameterRange) -> Any:
    """A range as in a run file; a constant is written as its value."""
    match item.kind:
        case RangeKind.CONST:
            return item.values[0]
        case RangeKind.CHOICE:
            return {"choice": list(item.values)}
        case RangeKind.INT:
            bounds: list[float] = [int(item.low), int(item.high)]
        case RangeKind.UNIFORM:
            bounds = [item.low, item.high]
        case RangeKind.LOG:
            bounds = [item.base**item.low, item.base**item.high]
    return {item.kind.value: bounds} | ({"count": item.count} if item.count is not None else {})


def _written_policy(policy: CheckpointPolicy) -> Any:
    word = next((word for word, known in POLICIES.items() if known == policy), None)
    if word is not None:
        return word
    return {
        "experiment_best": policy.experiment_best,
        "trial_best": policy.trial_best,
        "trial_latest": policy.trial_latest,
    }
