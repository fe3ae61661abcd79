"""Cluster descriptions: YAML to a `model.cluster.Cluster`, every problem located. Needs no server.

Called by the server (`tarmac clusters add`, `--rehearse FILE`), by the reader of run files (`rehearse:`), and
by simulations. docs/operating/clusters.md explains the fields.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tarmac.dialects import names, quantities, schema
from tarmac.dialects.kinds import Kind, Misfit, choice, did_you_mean, integer, matching, number, text
from tarmac.dialects.located import Items, Problems, Scalar
from tarmac.dialects.plain import to_plain
from tarmac.dialects.pool_rules import POOL, read_pools
from tarmac.dialects.section import Section, Value
from tarmac.dialects.slot_types import doubt
from tarmac.dialects.yaml_tree import compose_table
from tarmac.model import cluster as model
from tarmac.model.errors import InvalidInput
from tarmac.model.resources import CPU_ONLY, Resources

UNNAMED = model.REHEARSAL_PREFIX.removesuffix("-")
"""The name of a cluster described in a run file until its run has an id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReading:
    """A cluster description after reading. `warnings` are for the user and refuse nothing."""

    cluster: model.Cluster
    warnings: tuple[str, ...] = ()


def read_cluster(text: str, *, filename: str, named: str | None = None) -> ClusterReading:
    """The cluster in a description; raises InvalidInput with every problem in it.

    A file without a `name` describes a cluster named after the file; `named` overrides both.
    """
    problems = Problems(filename)
    tree = compose_table(text, problems, "fields such as 'nodes: [...]' are")
    section = schema.section_of(Value(tree, "", problems), CLUSTER)
    assert section is not None, "the tree is a mapping"
    found = schema.read_fields(section, CLUSTER)
    if named is None:
        named = found.get("name", "") if "name" in section else _name_from_file(section, filename)
    cluster = _cluster(section, found, named)
    problems.raise_any()
    return ClusterReading(cluster=cluster, warnings=tuple(problems.warnings))


def check_cluster_name(name: str) -> str:
    """The name, if it is valid for a cluster; raises InvalidInput otherwise."""
    try:
        return CLUSTER_NAME.read(Scalar(text=name))
    except Misfit as misfit:
        text = f"{CLUSTER_NAME.description} is expected, not {name[:80]!r}"
        raise InvalidInput(text, hint=misfit.hint) from None


def read_inline(value: Value) -> model.Cluster | None:
    """A description inside another file, for one run alone; None, with problems reported, if invalid."""
    section = schema.section_of(value, CLUSTER)
    return None if section is None else _cluster(section, schema.read_fields(section, CLUSTER), UNNAMED)


def _cluster(section: Section, found: Mapping[str, Any], name: str) -> model.Cluster:
    groups: tuple[model.NodeGroup, ...] = ()
    engine = found.get("engine", model.LOCAL_ENGINE)
    if engine != model.LOCAL_ENGINE:
        section.exclude("engine", "nodes", "disks", reason=f"the engine {engine} finds the nodes itself")
    elif "nodes" not in section:
        section.missing("nodes", "a cluster has nodes, such as 'nodes: [{count: 4, slots: 8}]'")
    else:
        groups = _read_groups(section["nodes"], disks=found.get("disks", model.Disks.SHARED))
    read = read_pools(section.get("pools"), name)
    known = dict.fromkeys(group.pool for group in groups)
    for pool, value in read:
        if groups and pool.name not in known:
            hint = did_you_mean(pool.name, known) or f"pools with nodes: {', '.join(known)}"
            value.refuse("no node is in this pool", hint)
    return model.Cluster(
        name=name,
        groups=groups,
        pools=tuple(pool for pool, _ in read),
        engine=engine,
        settings=found.get("settings", {}),
        credentials=found.get("credentials", {}),
    )


def _name_from_file(section: Section, filename: str) -> str:
    """The file's name turned into a cluster name; reports a problem if no valid name results."""
    name = names.name_from_file(filename).replace(".", "-")
    try:
        return CLUSTER_NAME.read(Scalar(text=name))
    except Misfit:
        section.missing("name", f"the file's own, {name!r}, is not allowed; write 'name: site-a'")
        return name


_NAME = matching(
    r"[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?",
    "the name of a cluster, 1 to 63 letters, digits, '_' and '-', first and last a letter or digit,",
)


def _cluster_name(scalar: Scalar) -> str:
    if "." in scalar.text:
        raise Misfit(f"without a dot: {scalar.text.replace('.', '-')!r}")
    name = _NAME.read(scalar)
    if name == model.LOCAL_CLUSTER:
        raise Misfit("'local' is this machine's own: settings.toml describes it")
    if name.startswith(model.REHEARSAL_PREFIX):
        raise Misfit(f"names that begin with '{model.REHEARSAL_PREFIX}' are those of rehearsals")
    return name


CLUSTER_NAME = Kind(_NAME.description, _cluster_name)
"""No dot: node names are a host name, a dot and the cluster name (`model.described`)."""


_DISKS = choice(model.Disks)
CLUSTER = schema.record(
    {
        "name": schema.Field(CLUSTER_NAME, words="cluster"),
        "engine": text(),
        # The engine's own, unchecked: the engine reads them.
        "settings": schema.MapOf(schema.Custom(lambda value: to_plain(value.node)), "settings by name"),
        "credentials": schema.MapOf(text(), "names of secrets by use"),
        "nodes": schema.Field(schema.AS_IT_IS, words="groups node_groups"),
        "pools": schema.Field(schema.AS_IT_IS, words="partitions"),
        "disks": schema.Field(_DISKS, words="disk"),
    }
)
_MOST_SLOTS = 1024
_PREFIX = matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", "letters, digits, '.', '_' and '-', first no sign,")


def _read_groups(value: Value, *, disks: model.Disks = model.Disks.SHARED) -> tuple[model.NodeGroup, ...]:
    """The groups of a list; reports duplicate names and too many nodes as well.

    `disks` is the default for groups.
    """
    read: list[tuple[model.NodeGroup, Value]] = []
    for item in value.items("a list of groups of nodes, such as [{count: 4, slots: 8}],"):
        if (section := schema.section_of(item, GROUP)) is not None:
            read.append((_group(section, item, disks), item))
    groups = tuple(group for group, _ in read)
    if isinstance(value.node, Items) and not value.node.items:
        value.refuse("a cluster has at least one node", "such as [{count: 4, slots: 8}]")
    total = sum(group.nodes for group in groups)
    if total > model.MOST_NODES:
        value.refuse(f"{total} nodes are more than the {model.MOST_NODES} that a cluster may have")
    else:
        _refuse_twins(read)
    return groups


def _group(section: Section, item: Value, disks: model.Disks) -> model.NodeGroup:
    found = schema.read_fields(section, GROUP)
    hostnames = found.get("hostnames", ())
    count = found.get("count", len(hostnames) or 1)
    if hostnames and count != len(hostnames):
        section["count"].refuse(
            f"{count} nodes have {len(hostnames)} hostnames", "leave 'count' out, or name each node"
        )
        hostnames = ()
    section.exclude("hostnames", "prefix", reason="nodes with host names need no others")
    slots = _slots(section, item, found)
    if (uncertain := doubt(slots.slot_type or CPU_ONLY)) is not None:
        item.problems.warn(None, f"{item.path}.slot_type: {uncertain}")
    given = schema.attributes(found, GROUP) | {
        "nodes": count,
        "slots": slots.slots,
        "slot_type": slots.slot_type or CPU_ONLY,
        "hostnames": hostnames,
    }
    return model.NodeGroup(**{"disks": disks, **given})


def _slots(section: Section, item: Value, found: Mapping[str, Any]) -> Resources:
    """The number and type of a node's slots: `slots: 8` with `slot_type: h100`, or `slots: h100:8`."""
    slot_type, value = found.get("slot_type"), section.get("slots")
    if value is None:
        section.missing("slots", f"how many slots has each of these nodes? {item.path}.slots: 8")
        return Resources(slots=1, slot_type=slot_type)
    amount = found.get("slots", Resources(slots=1))
    if amount.slots > _MOST_SLOTS:
        value.refuse(f"{amount.slots} slots are more than the {_MOST_SLOTS} that a node may have")
    if amount.slot_type is not None and slot_type not in (None, amount.slot_type):
        value.refuse(f"its type is {amount.slot_type} here and {slot_type} in 'slot_type'", "say it once")
    return Resources(slots=amount.slots, slot_type=amount.slot_type or slot_type)


def _refuse_twins(read: Iterable[tuple[model.NodeGroup, Value]]) -> None:
    """Report every group with a node whose name an earlier node has."""
    seen: set[str] = set()
    twins: dict[int, list[str]] = {}
    places = {id(group): item for group, item in read}
    for group, hostname in model.hostnames_of(tuple(group for group, _ in read)):
        if hostname in seen and hostname:
            twins.setdefault(id(group), []).append(hostname)
        seen.add(hostname)
    for group_id, hostnames in twins.items():
        places[group_id].refuse(
            f"a second node is called {hostnames[0]!r}", "each node of a cluster has a name of its own"
        )


GROUP = schema.record(
    {
        "count": schema.Field(integer(1, model.MOST_NODES), sets="nodes", words="nodes replicas number"),
        "slots": schema.Field(quantities.slots(1), words="gpu gpus"),
        "slot_type": schema.Field(quantities.TYPE_NAME, words="type gpu_type"),
        "cpus": schema.Field(number(0, 1_000_000.0), words="cpu"),
        "memory": schema.Field(quantities.SIZE, sets="memory_bytes", words="mem ram"),
        "pool": schema.Field(names.NAME, words="partition"),
        "shard": names.NAME,
        "hostnames": schema.Field(
            schema.tuple_of(names.HOSTNAME, "a list of host names"), words="hosts names"
        ),
        "prefix": schema.Field(_PREFIX, words="name"),
        "disks": schema.Field(_DISKS, words="disk"),
    }
)


def cluster_fields(cluster: model.Cluster) -> dict[str, Any]:
    """The fields `nodes` and `pools` that describe the cluster."""
    nodes = [schema.write_record(group, GROUP) for group in cluster.groups]
    pools = {pool.name: schema.write_record(pool, POOL) for pool in cluster.pools}
    return {"nodes": nodes} | ({"pools": pools} if pools else {})
