"""`tarmac completion`, and the shell's completions for RUN, NODE and clusters.

The completions are called through `options` while the user types. So they are quick, silent about errors, and
never start a server.
"""

from collections.abc import Iterator
from contextlib import suppress

import click
from click.shell_completion import CompletionItem, get_completion_class

from tarmac.cli.dialogue import LAST, connect
from tarmac.cli.views.messages import state_of
from tarmac.client import Client
from tarmac.model.errors import TarmacError

MOST = 200


_HOW = {
    "bash": '# in ~/.bashrc:  eval "$(tarmac completion bash)"',
    "zsh": '# in ~/.zshrc, after compinit:  eval "$(tarmac completion zsh)"',
    "fish": "# once:  tarmac completion fish > ~/.config/fish/completions/tarmac.fish",
}


def candidates(kind: str, incomplete: str) -> list[CompletionItem]:
    """The values of an argument that begin with a text, each with an explanation; none without a server."""
    found: list[CompletionItem] = []
    with suppress(TarmacError, OSError):
        for value, text in _CANDIDATES[kind](connect(start=False), incomplete):
            found.append(CompletionItem(value, help=text))
    return found


def _runs(client: Client, incomplete: str) -> Iterator[tuple[str, str]]:
    """Runs whose name or id begins with the text; a name once, for its newest run."""
    if LAST.startswith(incomplete) and incomplete:
        yield LAST, "the newest run"
    runs = client.runs(limit=MOST).runs
    names: set[str] = set()
    for run in runs:
        if run.name not in names and run.name.startswith(incomplete):
            names.add(run.name)
            yield run.name, f"{state_of(run)} ({run.id})"
    if incomplete:
        yield from ((run.id, f"{run.name}, {state_of(run)}") for run in runs if run.id.startswith(incomplete))


def _nodes(client: Client, incomplete: str) -> Iterator[tuple[str, str]]:
    """Nodes whose name begins with the text."""
    for node in client.nodes():
        if node.name.startswith(incomplete):
            yield node.name, f"{node.state}, {node.slots_used} of {node.slots} slots used"


def _clusters(client: Client, incomplete: str) -> Iterator[tuple[str, str]]:
    """Clusters whose name begins with the text."""
    for cluster in client.clusters():
        if cluster.name.startswith(incomplete):
            yield cluster.name, f"{cluster.nodes} nodes, {cluster.slots_free} slots free"


_CANDIDATES = {"run": _runs, "node": _nodes, "cluster": _clusters}


@click.command()
@click.argument("shell", type=click.Choice(sorted(_HOW)))
@click.pass_context
def completion(ctx: click.Context, *, shell: str) -> None:
    """Print a shell completion script.

    \b
    bash:  eval "$(tarmac completion bash)"      in ~/.bashrc
    zsh:   eval "$(tarmac completion zsh)"       in ~/.zshrc, after compinit
    fish:  tarmac completion fish > ~/.config/fish/completions/tarmac.fish
    """
    script = get_completion_class(shell)
    if script is None:
        raise click.UsageError(f"this version of click has no completion for {shell}", ctx)
    root = ctx.find_root()
    click.echo(f"{_HOW[shell]}\n{script(root.command, {}, str(root.info_name), '_TARMAC_COMPLETE').source()}")
