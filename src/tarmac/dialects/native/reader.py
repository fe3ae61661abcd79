"""Reads a native run file: a located tree to a `RunSpec`, every problem reported. Called by the dialect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tarmac.dialects import names, quantities
from tarmac.dialects.changes import change
from tarmac.dialects.conventions import refuse_extras
from tarmac.dialects.dialect import NO_EXTRAS, Extras, Reading
from tarmac.dialects.kinds import choice, flag, integer, number
from tarmac.dialects.native.after import ARRAY, read_after
from tarmac.dialects.native.code import DIRECTORY, REPOSITORY, read_code
from tarmac.dialects.native.commands import HOOKS, read_hooks
from tarmac.dialects.native.conventions import read_conventions, read_site
from tarmac.dialects.native.environment import read_environment, read_labels, read_pause
from tarmac.dialects.native.fields import ENVIRONMENT, PAUSE, RUN, read_mode, read_rapid_cycles
from tarmac.dialects.native.inputs import ARTIFACTS, read_artifacts, read_binds, read_ids, read_parameters
from tarmac.dialects.native.log_policies import read_log_policies
from tarmac.dialects.native.notify import read_notify
from tarmac.dialects.native.roles import read_roles
from tarmac.dialects.native.search import SEARCH, read_search
from tarmac.dialects.native.secrets import read_secrets
from tarmac.dialects.native.setup import read_setup
from tarmac.dialects.native.slurm import read_slurm
from tarmac.dialects.priorities import priority
from tarmac.dialects.problems import Problems
from tarmac.dialects.rehearsals import read_rehearsal, with_rehearsal
from tarmac.dialects.section import Fields, Section, Value
from tarmac.dialects.yaml_tree import compose_table
from tarmac.model.spec import DEFAULT_RAPID_CYCLES, Queueing, RunSpec, SetupStep, Target

NAME = "native"
LARGEST_WEIGHT = 100_000
MOST_RETRIES = 1_000

_CODE = Fields(known=DIRECTORY.known | REPOSITORY.known)
_TOP = replace(
    RUN,
    within={**RUN.within, "environment": ENVIRONMENT, "pause": PAUSE, "hooks": HOOKS}
    | {"artifacts": ARTIFACTS, "search": SEARCH, "code": _CODE},
)


def read_native(text: str, *, filename: str, directory: str, extras: Extras = NO_EXTRAS) -> Reading:
    """The spec in a native run file; raises InvalidInput with every problem in it."""
    refuse_extras(extras, filename=filename, dialect=NAME)
    problems = Problems(filename)
    tree = compose_table(text, problems, "fields such as 'command: ...' are")
    run = Section(change(tree, extras.changes, problems), _TOP, problems=problems)
    mode, search = read_mode(run), read_search(run)
    spec = RunSpec(
        name=run.read("name", names.NAME, names.name_from_file(filename)),
        project=run.read("project", names.NAME, "default"),
        dialect=NAME,
        source=text,
        conventions=read_conventions(run.get("conventions")),
        unique_name=run.read("unique_name", flag(), False),
        roles=read_roles(run),
        code=read_code(run, directory),
        target=read_target(run),
        rehearsal=read_rehearsal(run),
        mode=mode,
        max_rapid_cycles=read_rapid_cycles(run, mode, DEFAULT_RAPID_CYCLES),
        priority=run.read("priority", PRIORITY, 0),
        weight=run.read("weight", WEIGHT, 1.0),
        queueing=run.read("queueing", choice(Queueing), Queueing.WAIT),
        after=read_after(run),
        array=run.read("array", ARRAY, None),
        retries=run.read("retries", RETRIES, 0),
        stop_on_nan=run.read("stop_on_nan", flag(), False),
        time_limit_s=run.read("time_limit", quantities.duration_s(), None),
        pause=read_pause(run),
        setup=_setup(run.get("setup")),
        hooks=read_hooks(run.get("hooks")),
        environment=read_environment(run, directory),
        binds=read_binds(run.get("binds")),
        datasets=read_ids(run.get("datasets"), "datasets"),
        input_artifacts=read_ids(run.get("input_artifacts"), "artifacts"),
        artifacts=read_artifacts(run.get("artifacts")),
        parameters=read_parameters(run) if search is None else None,
        search=search,
        secrets=read_secrets(run.get("secrets")),
        site=read_site(run.get("site")),
        slurm=read_slurm(run.get("slurm")),
        notify=read_notify(run),
        log_policies=read_log_policies(run),
        labels=_labels(run.get("labels")),
    )
    if spec.site is not None and any(role.launcher is not None for role in spec.roles):
        run.refuse("a run for a site starts its own processes: 'launcher' cannot stand beside 'site'")
    if search is not None and search.max_slots is not None and search.max_slots < spec.slots:
        run.refuse(
            f"search.max_slots ({search.max_slots}) is less than a trial asks for ({spec.slots} slots)"
        )
    problems.raise_any()
    return Reading(spec=with_rehearsal(spec, spec.rehearsal), warnings=tuple(problems.warnings))


PRIORITY = priority()
WEIGHT = number(above=0, maximum=LARGEST_WEIGHT)
RETRIES = integer(0, MOST_RETRIES)
HOSTNAMES = "a list of host names"


def read_target(run: Section) -> Target:
    """The nodes that the run may use."""
    target = Target(
        cluster=run.read("cluster", names.NAME, None),
        pool=run.read("pool", names.NAME, None),
        shard=run.read("shard", names.NAME, None),
        hostnames=run.read_list("hostnames", names.HOSTNAME, HOSTNAMES, or_one=True),
        excluded=run.read_list("exclude_hostnames", names.HOSTNAME, HOSTNAMES, or_one=True),
    )
    if target.hostnames and set(target.hostnames) <= set(target.excluded):
        run.refuse("exclude_hostnames takes away every one of hostnames", "no machine is left")
    return target


def _setup(value: Value | None) -> tuple[SetupStep, ...]:
    return () if value is None else read_setup(value)


def _labels(value: Value | None) -> Mapping[str, str]:
    return {} if value is None else read_labels(value)
