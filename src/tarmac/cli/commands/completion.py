"""`tarmac completion`: print a shell completion script."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_HOW = {
    "bash": '# in ~/.bashrc:  eval "$(tarmac completion bash)"',
    "zsh": '# in ~/.zshrc, after compinit:  eval "$(tarmac completion zsh)"',
    "fish": "# once:  tarmac completion fish > ~/.config/fish/completions/tarmac.fish",
}


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
    click.echo(f"{_HOW[shell]}\n{_source(script, root)}")


def _source(script: type, root: click.Context) -> str:
    source: str = script(root.command, {}, root.info_name, "_TARMAC_COMPLETE").source()
    return source
