"""Cluster descriptions: YAML to a `model.cluster.Cluster`, every problem located. Needs no server.

Called by the server (`tarmac clusters add`, `--rehearse FILE`), by the reader of run files (`rehearse:`), and
by simulations. docs/operating/clusters.md explains the fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tarmac.dialects import names
from tarmac.dialects.kinds import Kind, Misfit, did_you_mean, matching, text
from tarmac.dialects.located import Scalar
from tarmac.dialects.node_groups import DISKS, read_groups
from tarmac.dialects.plain import to_plain
from tarmac.dialects.pool_rules import read_pools
from tarmac.dialects.problems import Problems
from tarmac.dialects.section import Fields, Section, Value, words_for
from tarmac.dialects.yaml_tree import compose_table
from tarmac.model.cluster import LOCAL_CLUSTER, LOCAL_ENGINE, REHEARSAL_PREFIX, Cluster, Disks, NodeGroup
from tarmac.model.errors import InvalidInput

CLUSTER = Fields(
    known=frozenset({"name", "engine", "settings", "credentials", "nodes", "pools", "disks"}),
    synonyms=words_for(name="cluster", nodes="groups node_groups", pools="partitions", disks="disk"),
)

UNNAMED = REHEARSAL_PREFIX.removesuffix("-")
"""The name of a cluster described in a run file until its run has an id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReading:
    """A cluster description after reading. `warnings` are for the user and refuse nothing."""

    cluster: Cluster
    warnings: tuple[str, ...] = ()


def read_cluster(text: str, *, filename: str, named: str | None = None) -> ClusterReading:
    """The cluster in a description; raises InvalidInput with every problem in it.

    A file without a `name` describes a cluster named after the file; `named` overrides both.
    """
    problems = Problems(filename)
    tree = compose_table(text, problems, "fields such as 'nodes: [...]' are")
    section = Section(tree, CLUSTER, problems=problems)
    name = section.read("name", CLUSTER_NAME, "")
    if named is not None:
        name = named
    elif "name" not in section:
        name = _name_from_file(section, filename)
    cluster = _cluster(section, name)
    problems.raise_any()
    return ClusterReading(cluster=cluster, warnings=tuple(problems.warnings))


def check_cluster_name(name: str) -> str:
    """The name, if it is valid for a cluster; raises InvalidInput otherwise."""
    try:
        return CLUSTER_NAME.read(Scalar(text=name))
    except Misfit as misfit:
        text = f"{CLUSTER_NAME.description} is expected, not {name[:80]!r}"
        raise InvalidInput(text, hint=misfit.hint) from None


def read_inline(value: Value) -> Cluster | None:
    """A description inside another file, for one run alone; None, with problems reported, if invalid."""
    section = value.section(CLUSTER)
    if section is None:
        return None
    section.read("name", CLUSTER_NAME, "")
    return _cluster(section, UNNAMED)


def _cluster(section: Section, name: str) -> Cluster:
    groups: tuple[NodeGroup, ...] = ()
    nodes = section.get("nodes")
    disks = section.read("disks", DISKS, Disks.SHARED)
    engine = section.read("engine", text(), LOCAL_ENGINE)
    if engine != LOCAL_ENGINE:
        section.exclude("engine", "nodes", "disks", reason=f"the engine {engine} finds the nodes itself")
    elif nodes is None:
        section.missing("nodes", "a cluster has nodes, such as 'nodes: [{count: 4, slots: 8}]'")
    else:
        groups = read_groups(nodes, disks=disks)
    read = read_pools(section.get("pools"), name)
    known = dict.fromkeys(group.pool for group in groups)
    for pool, value in read:
        if groups and pool.name not in known:
            hint = did_you_mean(pool.name, known) or f"pools with nodes: {', '.join(known)}"
            value.refuse("no node is in this pool", hint)
    return Cluster(
        name=name,
        groups=groups,
        pools=tuple(pool for pool, _ in read),
        engine=engine,
        settings=_settings(section),
        credentials=_credentials(section),
    )


def _settings(section: Section) -> dict[str, Any]:
    """The engine's own settings, unchecked: the engine reads them."""
    value = section.get("settings")
    if value is None:
        return {}
    return {key.read(text(), ""): to_plain(item.node) for key, item in value.entries("settings by name")}


def _credentials(section: Section) -> dict[str, str]:
    """The name of a secret for each credential."""
    value = section.get("credentials")
    if value is None:
        return {}
    return {
        key.read(text(), ""): item.read(text(), "") for key, item in value.entries("names of secrets by use")
    }


def _name_from_file(section: Section, filename: str) -> str:
    """The file's name turned into a cluster name; reports a problem if no valid name results."""
    name = names.name_from_file(filename).replace(".", "-")
    try:
        return CLUSTER_NAME.read(Scalar(text=name))
    except Misfit:
        section.missing("name", f"the file's own, {name!r}, is not allowed; write 'name: site-a'")
        return name


def _cluster_name() -> Kind[str]:
    plain = matching(
        r"[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?",
        "the name of a cluster, 1 to 63 letters, digits, '_' and '-', first and last a letter or digit,",
    )

    def read(scalar: Scalar) -> str:
        if "." in scalar.text:
            raise Misfit(f"without a dot: {scalar.text.replace('.', '-')!r}")
        name = plain.read(scalar)
        if name == LOCAL_CLUSTER:
            raise Misfit("'local' is this machine's own: settings.toml describes it")
        if name.startswith(REHEARSAL_PREFIX):
            raise Misfit(f"names that begin with '{REHEARSAL_PREFIX}' are those of rehearsals")
        return name

    return Kind(plain.description, read)


CLUSTER_NAME = _cluster_name()
"""No dot: node names are a host name, a dot and the cluster name (`model.described`)."""
