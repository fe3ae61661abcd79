"""The table of the native run file: a row for each field, with what it sets in a `RunSpec`.

Reading, the hints of the nearest name, `tarmac convert` and overrides follow from the rows. The tables of
nested mappings are beside their readers. docs/using/run-file.md documents each field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tarmac.dialects import names, quantities
from tarmac.dialects.kinds import choice, flag, integer, matching, number, text
from tarmac.dialects.located import Table
from tarmac.dialects.native.after import AFTER, ARRAY
from tarmac.dialects.native.code import CODE
from tarmac.dialects.native.commands import HOOKS, SETUP
from tarmac.dialects.native.environment import ENVIRONMENT, LABELS, PAUSE, VARIABLES
from tarmac.dialects.native.inputs import ARTIFACTS, BINDS, ids
from tarmac.dialects.native.notify import NOTIFY
from tarmac.dialects.native.roles import ROLE, read_roles
from tarmac.dialects.native.search import SEARCH
from tarmac.dialects.native.secrets import SECRETS
from tarmac.dialects.native.slurm import SLURM
from tarmac.dialects.plain import to_plain
from tarmac.dialects.priorities import priority
from tarmac.dialects.rehearsals import REHEARSAL
from tarmac.dialects.schema import MISSING, Custom, Field, record, tuple_of
from tarmac.dialects.section import Section, Value
from tarmac.model.codec import decode, encode
from tarmac.model.errors import InvalidInput
from tarmac.model.log_policy import LogAction, LogPolicy
from tarmac.model.mode import Mode
from tarmac.model.site import SiteRequest
from tarmac.model.spec import Conventions, Queueing

MOST_RAPID_CYCLES = 5
MOST_RETRIES = 1_000
LARGEST_WEIGHT = 100_000


def check_cycles(section: Section, mode: Mode) -> None:
    """Refuse a number of turns for a run of any other mode than cycle (I7)."""
    value, stated = section.get("max_rapid_cycles"), section.get("mode")
    if value is None or mode is Mode.CYCLE:
        return
    if stated is None or getattr(stated.node, "text", None) == mode:
        value.refuse(
            f"only a run of mode 'cycle' has turns, and this one is {mode}",
            "add 'mode: cycle', or take it out",
        )


def check_target(section: Section, found: Mapping[str, Any]) -> None:
    """Refuse nodes that contradict each other or a rehearsal."""
    if (listed := found.get("hostnames")) and set(listed) <= set(found.get("exclude_hostnames", ())):
        section.refuse("exclude_hostnames takes away every one of hostnames", "no machine is left")
    rehearsal = found.get("rehearse")
    if rehearsal is not None and rehearsal.described is not None:
        section.exclude("rehearse", "cluster", reason="a rehearsal is a cluster of its own")
    else:
        section.exclude("rehearse", *TARGET, reason="a rehearsal makes its own nodes")


def check_pattern(section: Section, found: Mapping[str, Any]) -> None:
    """Refuse a `pattern` that is no regular expression."""
    value, pattern = section.get("pattern"), found.get("pattern")
    if value is not None and isinstance(pattern, str):
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            value.refuse(f"this is not a regular expression: {error}")


def _mapping(description: str) -> Custom:
    """Any mapping, passed on unchanged."""

    def read(value: Value) -> Any:
        if not isinstance(value.node, Table):
            value.expected(description)
            return MISSING
        return to_plain(value.node)

    return Custom(read)


def _site(value: Value) -> Any:
    """The request to a site's batch system."""
    if not isinstance(value.node, Table):
        value.expected("a mapping with at least 'queue'")
        return MISSING
    try:
        return decode(SiteRequest, to_plain(value.node), value.path)
    except InvalidInput as error:
        value.refuse(str(error).removeprefix(f"{value.path}: "))
        return MISSING


_HOSTNAMES = tuple_of(names.HOSTNAME, "a list of host names", or_one=True)
TARGET = {
    "cluster": Field(names.NAME, sets="target.cluster"),
    "pool": Field(names.NAME, sets="target.pool", words="partition queue resource_pool"),
    "shard": Field(names.NAME, sets="target.shard"),
    "hostnames": Field(_HOSTNAMES, sets="target.hostnames", words="hosts"),
    "exclude_hostnames": Field(_HOSTNAMES, sets="target.excluded", words="exclude excluded excludes"),
}
"""The fields that select nodes."""

LOG_POLICY = record(
    {
        "pattern": Field(
            text("a regular expression"),
            words="regex match expression",
            required="the regular expression that is searched for in each line",
        ),
        "name": Field(text("a name"), words="label"),
        "action": Field(choice(LogAction), words="then do type"),
    },
    check_pattern,
    make=LogPolicy,
)
CONVENTIONS = record(
    {
        "system": matching(r"[a-z][a-z0-9]{0,31}", "the name of a dialect"),
        "facts": _mapping("a mapping"),
    },
    make=Conventions,
)
RUN = record(
    {
        "name": Field(names.NAME, words="experiment_name run_name"),
        "unique_name": flag(),
        "project": names.NAME,
        "labels": Field(LABELS, words="tags metadata"),
        "code": Field(CODE, words="workdir working_dir directory"),
        "setup": Field(SETUP, words="pre_run"),
        "hooks": HOOKS,
        **{name: replace(rule, sets=None) for name, rule in ROLE.fields.items()},
        "nodes": Field(ROLE.fields["nodes"].shape, sets=None, words="num_nodes nnodes"),
        "roles": Field(Custom(read_roles), sets=None),
        "rehearse": Field(REHEARSAL, sets="rehearsal"),
        **TARGET,
        "mode": Field(choice(Mode), words="compute_mode"),
        "max_rapid_cycles": Field(integer(1, MOST_RAPID_CYCLES), words="rapid_cycles"),
        "priority": priority(),
        "weight": Field(number(above=0, maximum=LARGEST_WEIGHT), words="share"),
        "queueing": Field(choice(Queueing), words="on_busy"),
        "array": ARRAY,
        "after": Field(AFTER, words="depends_on dependency dependencies needs depends"),
        "retries": Field(integer(0, MOST_RETRIES), words="max_retries"),
        "stop_on_nan": flag(),
        "time_limit": Field(
            quantities.duration_s(), sets="time_limit_s", words="timeout max_duration walltime"
        ),
        "pause": PAUSE,
        "environment": ENVIRONMENT,
        "env": Field(VARIABLES, sets=None, words="envs variables env_variables environment_variables"),
        "binds": Field(BINDS, words="mounts bind_mounts"),
        "datasets": Field(ids("datasets"), words="dataset dataset_id_list"),
        "input_artifacts": Field(ids("artifacts"), words="input_artifact_id_list"),
        "artifacts": ARTIFACTS,
        "parameters": Field(_mapping("a mapping from names to values"), words="params hyperparameters"),
        "search": Field(SEARCH, words="searcher sweep hyperparameter_search"),
        "secrets": Field(SECRETS, words="secret"),
        "site": Custom(_site, encode),
        "log_policies": tuple_of(
            LOG_POLICY, "a list of policies, each a mapping with 'pattern',", most=(100, "policies")
        ),
        "notify": Field(NOTIFY, words="notifications notification mail_user alerts webhooks"),
        "slurm": Field(SLURM, words="sbatch directives"),
        "conventions": CONVENTIONS,
    },
    check_target,
)
