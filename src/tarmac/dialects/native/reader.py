"""Reads a native run file: a located tree to a `RunSpec`, every problem reported. Called by the dialect.

`tarmac convert` writes `conventions` and `site` for other systems; people seldom write these by hand, so they
follow the records of `model` field by field.
"""

from __future__ import annotations

import re
from dataclasses import replace

from tarmac.dialects import names, quantities
from tarmac.dialects.changes import change
from tarmac.dialects.conventions import refuse_extras
from tarmac.dialects.dialect import NO_EXTRAS, Extras, Reading
from tarmac.dialects.kinds import choice, flag, integer, matching, number, text
from tarmac.dialects.located import Table
from tarmac.dialects.native.after import ARRAY, read_after
from tarmac.dialects.native.code import DIRECTORY, REPOSITORY, read_code
from tarmac.dialects.native.commands import HOOKS, read_hooks, read_setup
from tarmac.dialects.native.environment import read_environment, read_labels, read_pause
from tarmac.dialects.native.fields import ENVIRONMENT, PAUSE, RUN, read_mode, read_rapid_cycles
from tarmac.dialects.native.inputs import ARTIFACTS, read_artifacts, read_binds, read_ids, read_parameters
from tarmac.dialects.native.notify import read_notify
from tarmac.dialects.native.roles import read_roles
from tarmac.dialects.native.search import SEARCH, read_search
from tarmac.dialects.native.secrets import read_secrets
from tarmac.dialects.native.slurm import read_slurm
from tarmac.dialects.plain import to_plain
from tarmac.dialects.priorities import priority
from tarmac.dialects.problems import Problems
from tarmac.dialects.rehearsals import read_rehearsal, with_rehearsal
from tarmac.dialects.section import Fields, Section, Value, words_for
from tarmac.dialects.yaml_tree import compose_table
from tarmac.model.codec import decode
from tarmac.model.errors import InvalidInput
from tarmac.model.log_policy import LogAction, LogPolicy
from tarmac.model.site import SiteRequest
from tarmac.model.spec import DEFAULT_RAPID_CYCLES, Conventions, Queueing, RunSpec, Target

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
        conventions=_conventions(run.get("conventions")),
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
        setup=read_setup(run.get("setup")),
        hooks=read_hooks(run.get("hooks")),
        environment=read_environment(run, directory),
        binds=read_binds(run.get("binds")),
        datasets=read_ids(run.get("datasets"), "datasets"),
        input_artifacts=read_ids(run.get("input_artifacts"), "artifacts"),
        artifacts=read_artifacts(run.get("artifacts")),
        parameters=read_parameters(run) if search is None else None,
        search=search,
        secrets=read_secrets(run.get("secrets")),
        site=_site(run.get("site")),
        slurm=read_slurm(run.get("slurm")),
        notify=read_notify(run),
        log_policies=_log_policies(run),
        labels=read_labels(run.get("labels")),
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


LOG_POLICY = Fields(
    known=frozenset({"pattern", "name", "action"}),
    synonyms=words_for(pattern="regex match expression", name="label", action="then do type"),
)
_MOST_POLICIES = 100


def _log_policies(run: Section) -> tuple[LogPolicy, ...]:
    """The policies, in their order."""
    value = run.get("log_policies")
    if value is None:
        return ()
    items = list(value.items("a list of policies, each a mapping with 'pattern',"))
    if len(items) > _MOST_POLICIES:
        value.refuse(f"{len(items)} policies; at most {_MOST_POLICIES} are allowed")
    return tuple(policy for item in items if (policy := _policy(item)) is not None)


def _policy(value: Value) -> LogPolicy | None:
    section = value.section(LOG_POLICY)
    if section is None:
        return None
    found = section.get("pattern")
    if found is None:
        section.missing("pattern", "the regular expression that is searched for in each line")
        return None
    pattern = found.read(text("a regular expression"), "")
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        found.refuse(f"this is not a regular expression: {error}")
    return LogPolicy(
        pattern=pattern,
        name=section.read("name", text("a name"), None),
        action=section.read("action", choice(LogAction), None),
    )


CONVENTIONS = Fields(known=frozenset({"system", "facts"}))

_SYSTEM = matching(r"[a-z][a-z0-9]{0,31}", "the name of a dialect, such as isc,")


def _conventions(value: Value | None) -> Conventions:
    """The system whose variables, files and words apply to the run."""
    section = value.section(CONVENTIONS) if value is not None else None
    if section is None:
        return Conventions()
    facts = section.get("facts")
    if facts is not None and not isinstance(facts.node, Table):
        facts.expected("a mapping")
        facts = None
    return Conventions(
        system=section.read("system", _SYSTEM, "native"), facts=to_plain(facts.node) if facts else {}
    )


def _site(value: Value | None) -> SiteRequest | None:
    """The request to a site's batch system."""
    if value is None:
        return None
    if not isinstance(value.node, Table):
        value.expected("a mapping with at least 'queue'")
        return None
    try:
        return decode(SiteRequest, to_plain(value.node), value.path)
    except InvalidInput as error:
        value.refuse(str(error).removeprefix(f"{value.path}: "))
        return None
