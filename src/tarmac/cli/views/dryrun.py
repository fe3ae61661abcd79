"""A dry run as text: placement, commands and environment of each worker, and the native request.

Called by `run --dry-run`: the short form, and with `--verbose` all of it.
"""

from collections.abc import Iterator, Mapping, Sequence

from tarmac import api
from tarmac.cli.views.offerview import offers_text
from tarmac.cli.views.table import Column, Table, table_text
from tarmac.cli.views.terminal import Terminal
from tarmac.launch.quoting import join, quote
from tarmac.model.errors import listed

Shared = tuple[Sequence[str], Mapping[str, str]]
"""A command and variables that several workers have in common; empty if they differ."""

LONG = 40
"""Length in characters from which a value may be left out."""

PLACEMENT: Table[api.Placement] = (
    Column("NODE", lambda placement, _: placement.node),
    Column("RANK", lambda placement, _: placement.rank, right=True),
    Column("SLOTS", lambda placement, _: len(placement.slots), right=True),
    Column("ADDRESS", lambda placement, _: placement.address),
)


def short_text(answer: api.DryRun, terminal: Terminal) -> str:
    """The run's placement, its command, its own variables, and the paths of its artifacts."""
    if answer.rendered and answer.placement is None and not answer.reasons:
        return "\n".join([_rendered(answer.rendered, terminal), _title(answer, terminal)])
    parts = [f"{_title(answer, terminal)}\n{_placement(answer, terminal)}"]
    if answer.rendered and _sent_to_a_queue(answer):
        parts.insert(0, _rendered(answer.rendered, terminal, "the job's script").rstrip("\n"))
    commands: dict[str, list[str]] = {}
    own: dict[str, str] = {}
    named = set(answer.run.get("environment", {}).get("variables", {}))
    for node in answer.nodes:
        for worker in node.workers:
            who = f"{worker.role}.{worker.replica}.{worker.index}"
            commands.setdefault(command_text(worker.argv), []).append(who)
            own |= {name: value for name, value in worker.env.items() if name in named}
    for command, workers in commands.items():
        parts.append(f"{terminal.paint(f'command of {listed(workers, 1)}', 'bold')}\n{_indent(command)}")
    for title, values in (("variables of the run", own), ("artifacts", answer.artifact_paths)):
        if values:
            lines = [f"  {name}={printable(value)}" for name, value in sorted(values.items())]
            parts.append("\n".join([terminal.paint(title, "bold"), *lines]))
    if answer.nodes:
        parts.append(terminal.paint("--verbose shows every variable, and what the engine is sent", "dim"))
    return "\n\n".join(parts)


def plan_text(answer: api.DryRun, terminal: Terminal, *, inherited: Mapping[str, str]) -> str:
    """The complete answer, with the most important part at the end, where a terminal stops.

    Values common to all workers appear once. Long variables that are equal to those `inherited` here are only
    named.
    """
    workers = [worker for node in answer.nodes for worker in node.workers]
    argv, env = shared = _shared(workers)
    parts = []
    if answer.rendered and not _sent_to_a_queue(answer):
        parts.append(_rendered(answer.rendered, terminal))
        if answer.placement is None and not answer.reasons:
            return "\n".join([*parts, _title(answer, terminal)])
    if answer.request:
        parts.append(f"{terminal.paint('native request', 'bold')}\n{_indent(answer.request)}")
    if argv or env:
        details = _details(argv, env, terminal, inherited)
        parts.append("\n".join([terminal.paint("every worker", "bold"), *details]))
    parts += [_node(node, shared, terminal, inherited) for node in answer.nodes]
    return "\n\n".join([*parts, f"{_title(answer, terminal)}\n{_placement(answer, terminal)}"])


def _title(answer: api.DryRun, terminal: Terminal) -> str:
    return terminal.paint(f"{answer.run['name']}: nothing is started or kept", "bold")


def _sent_to_a_queue(answer: api.DryRun) -> bool:
    """Whether the rendered text is a part of the request: the script of a job, for a cluster's own queue."""
    return (answer.rendered or "") in (answer.request or "")


def _rendered(text: str, terminal: Terminal, what: str = "what the site is sent") -> str:
    """A request to a site, unchanged, so that a user can copy it."""
    lines = "\n".join(printable(line) for line in text.splitlines())
    return f"{terminal.paint(what, 'bold')}\n{lines}\n"


def _shared(workers: Sequence[api.WorkerLaunch]) -> Shared:
    """The command and the variables that several workers have in common."""
    if len(workers) < 2:
        return (), {}
    first, *others = workers
    argv = first.argv if all(worker.argv == first.argv for worker in others) else ()
    return argv, {
        name: value
        for name, value in first.env.items()
        if all(worker.env.get(name) == value for worker in others)
    }


def _placement(answer: api.DryRun, terminal: Terminal) -> str:
    """The nodes that it would have, or why it has none; then the shapes that it would rent."""
    rents_alone = answer.placement is None and not answer.reasons and answer.offers
    parts = [] if rents_alone else [_nodes(answer, terminal)]
    return "\n\n".join(parts + [offers_text(answer.offers, terminal)] * bool(answer.offers))


def _nodes(answer: api.DryRun, terminal: Terminal) -> str:
    reasons = [
        f"  {reason.node}: {reason.text}" if reason.node else f"  {reason.text}" for reason in answer.reasons
    ]
    if answer.placement is None:
        largest = [f"  the largest that fits: {answer.largest}"] if answer.largest else []
        rents = any(not each.refused for each in answer.offers)
        headline = "No node here can hold it:" if rents else "It can never start here:"
        return "\n".join([headline, *reasons, *largest])
    table = table_text(PLACEMENT, answer.placement, terminal)
    return "\n".join(["It would wait now:", *reasons, "Where it would go:", table]) if reasons else table


def _node(node: api.NodeLaunch, shared: Shared, terminal: Terminal, inherited: Mapping[str, str]) -> str:
    lines = [terminal.paint(f"on {node.node} (rank {node.rank})", "bold")]
    for worker in node.workers:
        own = {name: value for name, value in worker.env.items() if name not in shared[1]}
        lines.append(f"  {worker.role}.{worker.replica}.{worker.index}")
        lines += _details(() if shared[0] else worker.argv, own, terminal, inherited)
    return "\n".join(lines)


def _details(
    argv: Sequence[str], env: Mapping[str, str], terminal: Terminal, inherited: Mapping[str, str]
) -> Iterator[str]:
    """A command and variables, indented below their owner."""
    if argv:
        yield _indent(command_text(argv), "    ")
    known = [name for name in sorted(env) if len(env[name]) > LONG and inherited.get(name) == env[name]]
    yield from (
        f"    {terminal.paint(name, 'dim')}={printable(env[name])}"
        for name in sorted(env)
        if name not in known
    )
    if known:
        yield f"    {', '.join(known)} as here"


def command_text(argv: Sequence[str]) -> str:
    """An argv to read: a bash script by its lines, otherwise quoted for a shell."""
    if len(argv) >= 3 and argv[0].endswith("bash") and "\n" in argv[-1].rstrip("\n"):
        lines = argv[-1].rstrip().split("\n")
        return "\n".join([join(argv[:-1]), *(f"  {printable(line)}" for line in lines)])
    return join(argv)


def printable(text: str) -> str:
    """The text, quoted for bash if it contains unprintable characters."""
    return text if text.replace("\t", "").isprintable() else quote(text)


def _indent(text: str, by: str = "  ") -> str:
    return "\n".join(by + line for line in text.splitlines())
