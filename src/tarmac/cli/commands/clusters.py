"""`tarmac clusters`: list and show them; add, check and remove described ones.

`tarmac cluster` starts, inspects and ends a Ray cluster on servers that SSH reaches.
"""

import json
import re
import sys
from pathlib import PurePath

import click

from tarmac import api
from tarmac.cli.cluster_words import cluster_text, login_of_shell, nested, rule_value
from tarmac.cli.dialogue import answer, connect, print_list, print_text, print_warnings, remark, wants_json
from tarmac.cli.lazy import Subcommands, calls_subcommand
from tarmac.cli.options import complete_cluster, flag, key_value, pairs_option, together
from tarmac.cli.runfile import STDIN, read_text
from tarmac.cli.views.amounts import age, counted, duration, number, size
from tarmac.cli.views.table import Cell, Column, Table, table_text
from tarmac.cli.views.terminal import Terminal, one_line, stdout_terminal
from tarmac.client import Client
from tarmac.model.cluster import Finding, MachineState, Policy, QueueOffer

_KIND_TEXTS = {"own": "this machine's own", "added": "added", "rehearsal": "for one run alone"}

UNCOUNTED_BYTES = 1 << 50
"""Memory from this size on means that it was not counted."""


def _types(cluster: api.Cluster) -> str:
    return ", ".join(dict.fromkeys(kind.slot_type or "any" for kind in cluster.node_kinds))


def _shares(pool: api.PoolRules) -> str:
    if pool.policy is not Policy.FAIR_SHARE:
        return ""
    shares = [f"{who} {number(share)}" for who, share in pool.shares.items()]
    return ", ".join([f"by {pool.share_by}", *shares, f"half after {duration(pool.half_life_s)}"])


def _states(kind: api.NodeKind) -> str:
    up = kind.states.get("up", 0)
    away = [f"{count} {state}" for state, count in kind.states.items() if state != "up"]
    return ", ".join(([f"{up} up"] if up and away else ["up"] if up else []) + away)


def _memory(kind: api.NodeKind) -> str:
    return size(kind.memory_bytes_each) if 0 < kind.memory_bytes_each < UNCOUNTED_BYTES else ""


CLUSTERS: Table[api.Cluster] = (
    Column("CLUSTER", lambda cluster, _: cluster.name),
    Column("ENGINE", lambda cluster, _: cluster.engine),
    Column("NODES", lambda cluster, _: cluster.nodes, right=True),
    Column("FREE", lambda cluster, _: cluster.slots_free, right=True),
    Column("SLOTS", lambda cluster, _: cluster.slots, right=True),
    Column("TYPES", lambda cluster, _: _types(cluster)),
    Column("POOLS", lambda cluster, _: ", ".join(pool.name for pool in cluster.pools), flexible=True),
)

POOLS: Table[api.PoolRules] = (
    Column("POOL", lambda pool, _: pool.name),
    Column("NODES", lambda pool, _: pool.nodes, right=True),
    Column("USED", lambda pool, _: pool.slots_used, right=True),
    Column("SLOTS", lambda pool, _: pool.slots, right=True),
    Column("POLICY", lambda pool, _: pool.policy),
    Column("PREEMPTION", lambda pool, _: "on" if pool.preemption else "off"),
    Column("PACKING", lambda pool, _: pool.packing),
    Column("GUARANTEED", lambda pool, _: duration(pool.guaranteed_s), right=True, optional=True),
    Column("PATIENCE", lambda pool, _: duration(pool.backfill_window_s), right=True, optional=True),
    Column("TURN", lambda pool, _: duration(pool.turn_s), right=True),
    Column("PERIOD", lambda pool, _: duration(pool.period_s), right=True),
    Column("FLOOR", lambda pool, _: duration(pool.floor_s), right=True, optional=True),
    Column("SHARES", lambda pool, _: _shares(pool), flexible=True),
)

QUEUES: Table[QueueOffer] = (
    Column("POOL", lambda offer, _: offer.pool),
    Column("QUEUE", lambda offer, _: offer.queue),
    Column("LONGEST", lambda offer, _: duration(offer.longest_s) or "no limit known", right=True),
    Column("USUAL", lambda offer, _: duration(offer.usual_s), right=True),
    Column("NODES", lambda offer, _: offer.most_nodes, right=True),
    Column(
        "TERMS",
        lambda offer, _: ", ".join(f"{name} {value}" for name, value in offer.terms.items()),
        flexible=True,
    ),
)

KINDS: Table[api.NodeKind] = (
    Column("POOL", lambda kind, _: kind.pool),
    Column("SHARD", lambda kind, _: kind.shard),
    Column("NODES", lambda kind, _: kind.nodes, right=True),
    Column("EACH", lambda kind, _: f"{kind.slots_each} {kind.slot_type or 'any'}"),
    Column("USED", lambda kind, _: kind.slots_used, right=True),
    Column("SLOTS", lambda kind, _: kind.slots, right=True),
    Column("STATE", lambda kind, _: _states(kind)),
    Column(
        "CPUS", lambda kind, _: number(kind.cpus_each) if kind.cpus_each else "", right=True, optional=True
    ),
    Column("MEMORY", lambda kind, _: _memory(kind), right=True, optional=True),
    Column("HOSTS", lambda kind, _: " ... ".join(kind.hostnames), flexible=True),
)

_COLOURS = {"up": "green", "down": "red", "unreachable": "yellow"}
MACHINES: Table[api.ClusterMachine] = (
    Column("HOST", lambda machine, _: machine.name),
    Column("ROLE", lambda machine, _: machine.role),
    Column("RAY", lambda machine, _: Cell(machine.state, _COLOURS[machine.state])),
    Column("SINCE", lambda machine, now: age(machine.since, now)),
    Column("SLOTS", lambda machine, _: machine.slots, right=True),
    Column("PID", lambda machine, _: machine.pid or "", right=True),
    Column("ADDRESS", lambda machine, _: machine.address),
    Column("PROBLEM", lambda machine, _: machine.problem, flexible=True),
)

FINDINGS: Table[Finding] = (
    Column("", lambda found, _: Cell("ok", "green") if found.ok else Cell("missing", "red")),
    Column("WHAT", lambda found, _: found.what),
    Column("FOUND", lambda found, _: found.text, flexible=True),
)

_named_settings = together(
    *(
        click.option(f"--{name.replace('_', '-')}", metavar=kind, help=f"With --engine: the setting {name}.")
        for name, kind in {"address": "HOST:PORT", "url": "URL", "token_url": "URL", "system": "NAME"}.items()
    )
)
_name_argument = click.argument("name", metavar="NAME", shell_complete=complete_cluster)


@click.group(cls=Subcommands, invoke_without_command=True)
@click.pass_context
def clusters(ctx: click.Context) -> None:
    """List clusters, their slots and pools."""
    if not calls_subcommand(ctx):
        print_list("clusters", connect().clusters(), CLUSTERS, empty="no cluster is known")


@clusters.command()
@_name_argument
def show(*, name: str) -> None:
    """Show a cluster: its pools with their rules, its nodes by shard and type."""
    cluster = connect().cluster(name)
    answer(cluster, cluster_page(cluster, stdout_terminal()))


@clusters.command()
@_name_argument
def check(*, name: str) -> None:
    """Try what a run needs on a cluster, and print what was found.

    The exit code is 1 if something is missing.
    """
    found = connect().check_cluster(name)
    text = table_text(FINDINGS, found, stdout_terminal())
    answer({"cluster": name, "findings": found}, text)
    if not all(finding.ok for finding in found):
        sys.exit(1)


@clusters.command()
@click.argument("file", metavar="FILE|NAME", type=click.Path())
@click.option("--engine", metavar="ENGINE", help="Add the cluster NAME of this engine, without a file.")
@_named_settings
@pairs_option(
    "--credential",
    "credentials",
    metavar="USE=SECRET",
    help="With --engine: the secret with a credential, as password=site-password; may be repeated.",
)
@pairs_option(
    "--set",
    "settings",
    metavar="SETTING=VALUE",
    help="With --engine: a setting, as partition=gpu or pools.train.qos=long; may be repeated.",
)
@flag("--replace", help="In place of the cluster of the same name.")
def add(
    *,
    file: str,
    engine: str | None,
    credentials: tuple[tuple[str, str], ...],
    settings: tuple[tuple[str, str], ...],
    replace: bool,
    **named: str | None,
) -> None:
    """Add the cluster that FILE describes: virtual nodes on this machine, unless FILE names an engine.

    FILE may be - for standard input. With --engine, the cluster NAME is added without a file. What runs on
    nodes that stay goes on; a replacement that takes away what runs hold or need is refused.
    """
    settings = (*((name, value) for name, value in named.items() if value is not None), *settings)
    if engine is None and (settings or credentials):
        raise click.UsageError(
            "settings and credentials go with --engine; a file has them under 'settings' and 'credentials'"
        )
    client = connect()
    if engine is None:
        source = read_text(file, what="a cluster file")
        text, filename = source.text, source.filename
    else:
        of_shell, secrets = ({}, dict(credentials)) if credentials else login_of_shell(client, file, engine)
        given = (*of_shell.items(), *settings)
        text, filename = cluster_text(file, engine, given, secrets), "command line"
    cluster = client.add_cluster(text, filename=filename, replace=replace)
    print_warnings(f"{file}: {warning}" for warning in cluster.warnings)
    answer(cluster, f"there is {cluster_line(cluster)}")


@clusters.command("set")
@click.argument("pool", metavar="CLUSTER/POOL")
@click.argument("rules", metavar="RULE=VALUE...", nargs=-1, required=True, type=key_value)
def set_pool(*, pool: str, rules: tuple[tuple[str, str], ...]) -> None:
    """Change rules of a pool of a cluster that was added: policy=fair_share, shares.ada=2, preemption=true.

    An empty VALUE returns a rule to its default; given shares replace all earlier ones. The file of the
    cluster stays unchanged: adding it again with --replace undoes the change.
    """
    cluster_name, slash, name = pool.partition("/")
    if not slash:
        raise click.UsageError(f"a pool with its cluster is expected, such as lab/default, not {pool!r}")
    changed = connect().set_pool(cluster_name, name, nested(rules, "RULE", rule_value))
    answer(changed, cluster_page(changed, stdout_terminal()))


@clusters.command()
@_name_argument
def rm(*, name: str) -> None:
    """Forget a cluster that was added; refused while runs hold its nodes or need them.

    Empty it first: tarmac nodes drain --cluster NAME gives it no new work.
    """
    cluster = connect().remove_cluster(name)
    answer(cluster, f"{cluster.name} is gone", warnings=cluster.warnings)


@click.group(cls=Subcommands)
def cluster() -> None:
    """Start a Ray cluster on your own GPU servers over SSH, look at it, and end it."""


@cluster.command()
@click.argument("file", metavar="HOSTS.txt", type=click.Path())
@click.option("--name", metavar="NAME", help="Name of the cluster; else that of the file.")
@flag("--install", help="Install Ray where it is missing, in a directory of its own.")
def up(*, file: str, name: str | None, install: bool) -> None:
    """Have a cluster run on the servers that HOSTS.txt lists, and no others.

    One line a server: [user@]name [head] [port=N] [slots=N] [cpus=N] [address=IP] [python=COMMAND]
    [directory=PATH]. Everything that is wrong with any of them is reported before anything is started.

    The same command again starts what is down, adds servers, and takes out those that are gone from the
    file: their runs save, and go on elsewhere.
    """
    source = read_text(file, what="a hosts file")
    name = name or _name_of(file)
    client = connect()
    client.start_cluster(name, source.text, filename=source.filename, install=install)
    _follow(client, name, going="goes on starting it")
    started = client.cluster(name)
    answer(started, f"there is {cluster_line(started)}")


@cluster.command()
@_name_argument
@flag("--force", help="Stop the runs on it; give up servers that cannot be reached.")
@flag("--purge", help="Remove the directories of runs on the servers too.")
def down(*, name: str, force: bool, purge: bool) -> None:
    """End a cluster that `up` started; refused while runs are on it.

    What belongs to it on each server is ended by its process id, and nothing else is.
    """
    client = connect()
    client.end_cluster(name, force=force, purge=purge)
    _follow(client, name, going="goes on ending it")
    answer({"cluster": name}, f"{name} is gone")


@cluster.command()
@_name_argument
def status(*, name: str) -> None:
    """Show the servers of a cluster that `up` started, and whether Ray runs on each.

    The exit code is 1 if it does not run on one of them.
    """
    found = connect().cluster_machines(name)
    answer(found, table_text(MACHINES, found.machines, stdout_terminal()))
    if found.change is not None and not wants_json():
        remark(f"{found.change.kind} is at work on {name}")
    if any(machine.state is not MachineState.UP for machine in found.machines):
        sys.exit(1)


def _follow(client: Client, name: str, *, going: str) -> None:
    """Print the steps until the last; on stderr if the answer is a document."""
    tell = remark if wants_json() else print_text
    try:
        for line in client.follow_cluster_change(name):
            tell(change_line(line))
    except KeyboardInterrupt:
        remark(f"the server {going}: tarmac cluster status {name} shows how far it is")
        raise


def _name_of(file: str) -> str:
    """The name of a cluster, from its file name."""
    if file == STDIN:
        raise click.UsageError("a cluster from standard input needs --name")
    return re.sub(r"[^A-Za-z0-9_-]+", "-", PurePath(file).stem).strip("-_")


def cluster_page(cluster: api.Cluster, terminal: Terminal) -> str:
    """The page of one cluster: its pools with the rules of their queues, and its nodes, equal ones joined."""
    own_queues = table_text(QUEUES, cluster.queues, terminal)
    pools = own_queues if cluster.delegated else table_text(POOLS, cluster.pools, terminal)
    shown = ((name, value) for name, value in cluster.settings.items() if name != "pools")
    texts = ((name, value if isinstance(value, str) else json.dumps(value)) for name, value in shown)
    settings = "\n".join(f"  {name}: {one_line(text)}" for name, text in texts)
    parts = [cluster_line(cluster), settings, pools, table_text(KINDS, cluster.node_kinds, terminal)]
    return "\n\n".join(part for part in parts if part)


def cluster_line(cluster: api.Cluster) -> str:
    """A cluster in one sentence."""
    kind, free = _KIND_TEXTS[cluster.kind], f"{cluster.slots_free} of {cluster.slots} slots free"
    if cluster.delegated:
        kind, free = "with a queue of its own", f"{cluster.slots} slots"
    where = f"{counted(cluster.nodes, 'node')} in {counted(len(cluster.pools), 'pool')}"
    trouble = f"; it does not answer now: {cluster.trouble}" if cluster.trouble else ""
    return one_line(f"{cluster.name} ({cluster.engine}, {kind}): {where}, {free}{trouble}")


def change_line(line: api.ChangeLine) -> str:
    """A step of a change on a server."""
    return one_line(f"{line.machine}: {line.text}")
