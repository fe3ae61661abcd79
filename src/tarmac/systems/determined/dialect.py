"""Determined's dialect: experiment configurations. Listed in `systems.registry`."""

from functools import partial

from tarmac.dialects.dialect import Certainty, Detection, Dialect
from tarmac.dialects.located import Problems, Table, quote
from tarmac.dialects.yaml_tree import compose
from tarmac.model.errors import Problem
from tarmac.systems.determined.conventions import apply_conventions
from tarmac.systems.determined.defaults import NO_DEFAULTS, ClusterDefaults
from tarmac.systems.determined.fields import EXPERIMENT
from tarmac.systems.determined.library import explain
from tarmac.systems.determined.reader import NAME, read_experiment
from tarmac.systems.determined.statuses import COLUMNS, SCALE, status

_OWN = frozenset({"entrypoint", "searcher"})
_MARKS = frozenset(
    {"hyperparameters", "checkpoint_storage", "checkpoint_policy", "bind_mounts", "max_restarts"}
    | {"min_validation_period", "min_checkpoint_period", "scheduling_unit", "records_per_epoch"}
    | {"perform_initial_validation", "reproducibility", "optimizations", "preemption_timeout", "log_policies"}
)
_MANY = 2
_KNOWN = frozenset(EXPERIMENT.fields)
_FOREIGN = frozenset(
    {"command", "roles", "processes", "compute", "image", "gpu_num", "gpu_type", "cluster", "platform"}
    | {"run_name", "parameters", "scheduling", "env_variables", "run_type"}
)
"""Fields of other systems whose files also have an entry point."""


def determined_dialect(defaults: ClusterDefaults = NO_DEFAULTS) -> Dialect:
    """The dialect; `defaults` are the cluster's values for every experiment."""
    return Dialect(
        name=NAME,
        detect=_detect,
        read=partial(read_experiment, defaults=defaults),
        apply_conventions=apply_conventions,
        status=status,
        columns=COLUMNS,
        explain=explain,
        scale=SCALE,
        own_packages=True,
        adds_setup=True,  # its library
    )


def _detect(filename: str, text: str) -> Detection:
    """Certain for a mapping with a searcher or an entry point; possible if other fields suggest it."""
    problems = Problems(filename)
    tree = compose(text, problems, lenient=True)
    if tree is None:
        return problems.found[0]
    if not isinstance(tree, Table):
        return Problem(message=f"'searcher' and 'entrypoint' are expected, not {quote(tree)}")
    keys = tree.values.keys()
    if keys & _FOREIGN and not keys >= _OWN and len(keys & _MARKS) < _MANY:
        return Problem(message="'searcher' is missing")
    if "searcher" in keys or len(keys & _MARKS) >= _MANY or ("entrypoint" in keys and keys <= _KNOWN):
        return Certainty.CERTAIN
    if keys & (_OWN | _MARKS):
        return Certainty.POSSIBLE
    return Problem(message="'searcher' and 'entrypoint' are missing")
