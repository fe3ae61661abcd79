"""The table of the native run file: a row for each field, with what it sets in a `RunSpec`.

Reading, the hints of the nearest name, `tarmac convert` and overrides follow from the rows. The tables of
nested mappings are beside their readers. docs/using/run-file.md documents each field.
"""

import dataclasses
import posixpath
import re
from collections.abc import Mapping
from typing import Any

from tarmac.dialects import names, quantities
from tarmac.dialects.clusterfile import UNNAMED, cluster_fields, read_cluster, read_inline
from tarmac.dialects.kinds import Kind, Misfit, choice, flag, integer, matching, number, text
from tarmac.dialects.located import Scalar, Table
from tarmac.dialects.native.burst import BURST
from tarmac.dialects.native.code import CODE
from tarmac.dialects.native.commands import HOOKS, SETUP
from tarmac.dialects.native.environment import ENVIRONMENT, LABELS, PAUSE, VARIABLES
from tarmac.dialects.native.notify import NOTIFY
from tarmac.dialects.native.roles import ROLE, read_roles
from tarmac.dialects.native.search import SEARCH
from tarmac.dialects.native.secrets import SECRETS
from tarmac.dialects.plain import to_plain
from tarmac.dialects.priorities import priority
from tarmac.dialects.schema import MISSING, Custom, Field, ListOf, mapping, read_value, record, tuple_of
from tarmac.dialects.section import Section, Value
from tarmac.dialects.slot_types import with_types
from tarmac.model.array import Condition, Dependency, RunArray, read_array
from tarmac.model.codec import decode, encode, replace
from tarmac.model.errors import InvalidInput
from tarmac.model.lifecycle import Mode
from tarmac.model.progress import LogAction, LogPolicy
from tarmac.model.resources import ACCELERATOR
from tarmac.model.site import OF_THE_POOL, SiteRequest, check_name, check_value
from tarmac.model.spec import ArtifactRules, Bind, Conventions, Queueing, Rehearsal, RunSpec, Target

MOST_RAPID_CYCLES = 5
MOST_RETRIES = 1_000
LARGEST_WEIGHT = 100_000


_AWAITED = re.compile(r"@last|[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?", re.ASCII)
_CONDITIONS = {str(condition): condition for condition in Condition}
_FORMS = "a run, by name or id, and which end of it is awaited: RUN, RUN:completed or RUN:ended"


def _dependency(scalar: Scalar) -> Dependency:
    reference, colon, word = scalar.text.partition(":")
    condition = _CONDITIONS.get(word) if colon else Condition.COMPLETED
    if not _AWAITED.fullmatch(reference) or condition is None:
        raise Misfit()
    return Dependency(run=reference, condition=condition)


def _array(scalar: Scalar) -> RunArray:
    try:
        return read_array(scalar.text)
    except ValueError as error:
        raise Misfit(str(error)) from error


ARRAY = Kind("indices such as 0-99, 1,3,5-9 or 0-99%8 (at most 8 at once)", _array, write=str)
DEPENDENCY = Kind(f"{_FORMS},", _dependency, write=str)
AFTER = tuple_of(DEPENDENCY, f"a list; each item is {_FORMS}", or_one=True)


DIRECTIVES = "a mapping from directives to values, such as {constraint: nvlink, mem: null},"
VALUE = "a text or number, true for a directive without a value, or null to drop it,"


def _directives(value: Value) -> dict[str, str | None]:
    """The directives by name, every mistake reported at its place."""
    found: dict[str, str | None] = {}
    for key, item in value.entries(DIRECTIVES):
        name = key.node.text if isinstance(key.node, Scalar) else ""
        try:
            check_name(name)
        except InvalidInput as error:
            key.refuse(error.message, error.hint)
            continue
        if name == OF_THE_POOL:
            key.refuse("a pool of the cluster names the partition", "choose one by 'pool'")
            continue
        if not isinstance(item.node, Scalar):
            item.expected(VALUE)
            continue
        try:
            found[name] = check_value(_directive(item.node))
        except InvalidInput as error:
            item.refuse(error.message, error.hint)
    return found


def _directive(node: Scalar) -> str | bool | None:
    """None for an empty value, a truth value for `true` and `false`, the text for any other."""
    if node.empty:
        return None
    if not node.quoted and node.text in ("true", "false"):
        return node.text == "true"
    return node.text


SLURM = Custom(
    _directives, lambda found: {name: True if value == "" else value for name, value in found.items()}
)


IDENTIFIER = matching(
    r"[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?",
    "an id of letters, digits, '.', '_' and '-', first and last a letter or digit,",
)


def ids(what: str) -> ListOf:
    """One id or a list of them, without duplicates."""
    twice = (str, "{!r} occurs here a second time")
    return tuple_of(IDENTIFIER, f"a list of ids of {what}", or_one=True, twice=twice)


def _path(description: str, *, absolute: bool) -> Kind[str]:
    def read(scalar: Scalar) -> str:
        path = posixpath.normpath(scalar.text) if scalar.text else ""
        if (absolute and not path.startswith("/")) or path in ("", ".", "/") or path.startswith(".."):
            raise Misfit()
        return path

    return Kind(description, read)


_EVERY = quantities.duration_s()
ARTIFACTS = record(
    {
        "checkpoint_every": Field(_EVERY, sets="checkpoint_every_s", words="checkpoint"),
        "crud_every": Field(_EVERY, sets="crud_every_s", words="crud"),
        "lossy_every": Field(_EVERY, sets="lossy_every_s", words="lossy"),
        "log_every": Field(_EVERY, sets="log_every_s", words="log logs"),
    },
    make=ArtifactRules,
)
"""How often each kind of artifact is synced."""

_BOTH = "both ends of the bind are needed"
BIND = record(
    {
        "source": Field(
            _path("an absolute path of the node", absolute=True), words="host_path src", required=_BOTH
        ),
        "target": Field(
            _path("an absolute path, or one below the work directory,", absolute=False),
            words="container_path dst",
            required=_BOTH,
        ),
        "read_only": Field(flag(), words="readonly ro"),
    },
    make=Bind,
)
BINDS = tuple_of(
    BIND,
    "a list of mappings with 'source' and 'target'",
    twice=(lambda bind: bind.target, "{!r} is the target of two binds"),
)
"""Files and directories of the node, and their paths inside the run."""


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
    {"system": matching(r"[a-z][a-z0-9]{0,31}", "the name of a dialect"), "facts": mapping("a mapping")},
    make=Conventions,
)

CLUSTER_FILE = record({"source": text(), "filename": text()})
"""A cluster file in a submission: its text, and its name for messages."""


def with_rehearsal(spec: RunSpec, rehearsal: Rehearsal | None) -> RunSpec:
    """The spec on a cluster of its own.

    On a rehearsal given as nodes x slots, any node is suitable, and slots count as any type. A described one
    has the pools, shards, host names and types that the spec may name; a role that requests GPUs of no
    particular type may use any of its slots.
    """
    if rehearsal is None:
        return spec
    described = rehearsal.described is not None
    roles = (
        role if described and role.slot_type != ACCELERATOR else with_types(role, lambda _: None)
        for role in spec.roles
    )
    target = replace(spec.target, cluster=None) if described else Target()
    return replace(spec, rehearsal=rehearsal, target=target, roles=tuple(roles))


def _rehearsal(value: Value) -> Any:
    """`2x1`, a description of a cluster, or (in overrides) a file with one.

    Raises InvalidInput for problems in a file.
    """
    if isinstance(value.node, Scalar):
        return value.read(quantities.REHEARSAL, MISSING)
    if not isinstance(value.node, Table):
        value.expected("nodes x slots per node, such as 2x1, or the description of a cluster")
        return MISSING
    if any(key.text == "source" for key, _ in value.node.entries):
        return _from_file(value) or MISSING
    cluster = read_inline(value)
    return Rehearsal(described=cluster) if cluster is not None else MISSING


def _written(rehearsal: Rehearsal) -> Any:
    if rehearsal.described is None:
        return f"{rehearsal.nodes}x{rehearsal.slots_per_node}"
    return cluster_fields(rehearsal.described)


def _from_file(value: Value) -> Rehearsal | None:
    found = read_value(value, CLUSTER_FILE)
    if "source" not in found:
        value.refuse("the text of a cluster file is expected as its 'source'")
        return None
    name = found.get("filename", "cluster.yaml")
    reading = read_cluster(found["source"], filename=name, named=UNNAMED)
    value.problems.warnings += reading.warnings
    return Rehearsal(described=reading.cluster)


REHEARSAL = Custom(_rehearsal, _written)

RUN = record(
    {
        "name": Field(names.NAME, words="experiment_name run_name"),
        "unique_name": flag(),
        "project": names.NAME,
        "labels": Field(LABELS, words="tags metadata"),
        "code": Field(CODE, words="workdir working_dir directory"),
        "setup": Field(SETUP, words="pre_run"),
        "hooks": HOOKS,
        **{name: dataclasses.replace(rule, sets=None) for name, rule in ROLE.fields.items()},
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
        "parameters": Field(mapping("a mapping from names to values"), words="params hyperparameters"),
        "search": Field(SEARCH, words="searcher sweep hyperparameter_search"),
        "secrets": Field(SECRETS, words="secret"),
        "site": Custom(_site, encode),
        "burst": Field(BURST, words="rent renting"),
        "log_policies": tuple_of(
            LOG_POLICY, "a list of policies, each a mapping with 'pattern',", most=(100, "policies")
        ),
        "notify": Field(NOTIFY, words="notifications notification mail_user alerts webhooks"),
        "slurm": Field(SLURM, words="sbatch directives"),
        "conventions": CONVENTIONS,
    },
    check_target,
)
