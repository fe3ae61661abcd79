"""Determined's experiment configurations: how they are recognised and read. See `dialects.registry`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tarmac.dialects.conventions import refuse_extras
from tarmac.dialects.determined.conventions import apply_conventions
from tarmac.dialects.determined.defaults import NO_DEFAULTS, ClusterDefaults
from tarmac.dialects.determined.fields import EXPERIMENT
from tarmac.dialects.determined.reader import NAME, read_experiment
from tarmac.dialects.determined.statuses import state_word
from tarmac.dialects.dialect import NO_EXTRAS, Certainty, Detection, Extras, Reading, Report
from tarmac.dialects.located import Node, Table, quote
from tarmac.dialects.problems import Problems
from tarmac.dialects.yaml_tree import compose
from tarmac.model.launch import Launch
from tarmac.model.run import Attempt, Run

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
"""Fields of other systems whose files have an entry point too."""


@dataclass(frozen=True, eq=False)
class DeterminedDialect:
    """`defaults` are what the cluster gives to every experiment."""

    defaults: ClusterDefaults = NO_DEFAULTS
    name: str = NAME

    def detect(self, filename: str, text: str) -> Detection:
        """Certain of a mapping with a searcher or an entry point; possible where other fields are telling."""
        problems = Problems(filename)
        tree = compose(text, problems, lenient=True)
        if tree is not None:
            return _judge(tree)
        return Detection(certainty=Certainty.NO, missed=str(problems.first))

    def read(self, text: str, *, filename: str, directory: str, extras: Extras = NO_EXTRAS) -> Reading:
        """The parameters that go along are values in place of the file's."""
        refuse_extras(replace(extras, parameters=()), filename=filename, dialect=NAME)
        return read_experiment(
            text,
            filename=filename,
            directory=directory,
            defaults=self.defaults,
            changes=extras.parameters,
        )

    def apply_conventions(self, run: Run, attempt: Attempt, launch: Launch) -> Launch:
        return apply_conventions(run, attempt, launch)

    def status(self, report: Report) -> str:
        return state_word(report)


def _judge(tree: Node) -> Detection:
    if not isinstance(tree, Table):
        return Detection(
            certainty=Certainty.NO, missed=f"'searcher' and 'entrypoint' are expected, not {quote(tree)}"
        )
    keys = {key.text for key, _ in tree.entries}
    if keys & _FOREIGN and not keys >= _OWN and len(keys & _MARKS) < _MANY:
        return Detection(certainty=Certainty.NO, missed="'searcher' is missing")
    if "searcher" in keys or len(keys & _MARKS) >= _MANY or ("entrypoint" in keys and keys <= _KNOWN):
        return Detection(certainty=Certainty.CERTAIN)
    if keys & (_OWN | _MARKS):
        return Detection(certainty=Certainty.POSSIBLE)
    return Detection(certainty=Certainty.NO, missed="'searcher' and 'entrypoint' are missing")
