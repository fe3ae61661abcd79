"""`tarmac secret`: set, list and remove keys and passwords that runs get by name.

A value comes from a prompt, standard input or a file, never from an argument: all users of the machine can
see arguments, and shells store them in their history.
"""

import sys
from pathlib import Path
from typing import Any

import click

from tarmac.cli.dialogue import answer, connect, print_list
from tarmac.cli.lazy import AnsweringCommand, Subcommands
from tarmac.cli.options import flag
from tarmac.cli.views.amounts import age, counted
from tarmac.cli.views.table import Column, Table
from tarmac.model.secret import (
    MOST_BYTES,
    SERVER,
    SHARED,
    Secret,
    SecretForm,
    owner_text,
    project_scope,
    user_scope,
)


def form_of(secret: Secret) -> str:
    """The form in which runs get the secret if they give only its name."""
    match secret.form:
        case None if secret.scope == SERVER:
            return "no run gets it"
        case None:
            return "what a run says"
        case "variable":
            return f"variable {secret.variable}"
        case "file":
            place = secret.path or f"/secrets/{secret.name}/secret"
            return f"file {place}" + (f", named by {secret.variable}" if secret.variable else "")
        case form:
            return str(form)


SECRETS: Table[Secret] = (
    Column("NAME", lambda secret, _: secret.name),
    Column("OWNER", lambda secret, _: owner_text(secret.scope)),
    Column("GIVEN AS", lambda secret, _: form_of(secret), flexible=True),
    Column("SET", lambda secret, now: age(secret.created_at, now), right=True),
    Column("BY", lambda secret, _: secret.user, optional=True),
    Column("VALUES", lambda secret, _: secret.number, right=True, optional=True),
)


project_option = click.option("--project", metavar="NAME", help="The secret of this project.")
shared_option = flag("--shared", help="The secret for the runs of all users; administrators set it.")
server_option = flag("--server", help="The secret for the server alone, as a cluster or a setting names it.")


@click.group(cls=Subcommands)
def secret() -> None:
    """Set, list and remove secrets: keys that runs get by name."""


class SetCommand(AnsweringCommand):
    """`set`, which refuses a value among the arguments without repeating it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        if rest:
            raise click.UsageError(
                "a value is never given as an argument, where every user of this machine sees it: leave it "
                "out and type it when you are asked, or pipe it in. If it was a real one, replace it",
                ctx,
            )
        return rest


@secret.command(cls=SetCommand, context_settings={"allow_extra_args": True})
@click.argument("name", metavar="NAME")
@click.option(
    "--file",
    "-f",
    "path_of_value",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="Take the value from this file; - is standard input.",
)
@click.option(
    "--as",
    "form",
    type=click.Choice([form.value for form in SecretForm]),
    help="How runs get it that name it alone, and all runs of MCLI files.",
)
@click.option("--variable", metavar="NAME", help="The variable that holds it, or names its file.")
@click.option("--path", metavar="PATH", help="Where its file is seen; /secrets/NAME/secret by default.")
@project_option
@shared_option
@server_option
def set(
    *,
    name: str,
    path_of_value: Path | None,
    project: str | None,
    shared: bool,
    server: bool,
    **use: str | None,
) -> None:
    """Keep a value under NAME, in place of an earlier one. Only your own runs can use it.

    With --project, all runs of that project can use it. The value is asked for, without an echo; from a pipe
    or with --file it is read. Runs get it when they are next started.

    \b
    tarmac secret set wandb
    tarmac secret set wandb --project vision < key.txt
    tarmac secret set wandb --as variable --variable WANDB_API_KEY < key.txt
    tarmac secret set deploy-key --as git --file ~/.ssh/deploy
    """
    if use["form"] is None and any(value is not None for value in use.values()):
        use["form"] = "variable" if use["path"] is None else "file"
    scope = _scope(project, shared, server)
    version = connect().set_secret(name, _value(name, path_of_value), scope=scope, **use)
    owner = f" for {owner_text(version.scope)}" if scope is not None else ""
    usage = "" if scope == SERVER else f"; {usage_of(version)}"
    answer(version, f"{version.name} is set{owner}{usage}")


@secret.command()
def ls() -> None:
    """List your secrets, those of your projects and those for everyone; no value is ever shown."""
    empty = "there is no secret; tarmac secret set NAME sets one"
    print_list("secrets", connect().secrets(), SECRETS, empty=empty)


@secret.command()
@click.argument("name", metavar="NAME")
@flag("--force", help="Also while runs need it: they fail when started again.")
@flag("--purge", help="Forget its values altogether: logs that show them are no longer hidden.")
@project_option
@shared_option
@server_option
@click.option("--user", metavar="NAME", help="The secret of this user, for administrators.")
def rm(*, name: str, force: bool, purge: bool, **owner: Any) -> None:
    """Remove a secret, your own unless you choose another one; refused while a run needs it.

    Its values stay sealed on the server, to be hidden in the logs of runs that had them.
    """
    gone = connect().remove_secret(name, scope=_scope(**owner), force=force, purge=purge)
    answer(gone, f"{name} is gone")


@secret.command()
def rotate() -> None:
    """Seal all secrets with a new key, and forget the old one."""
    done = connect().rotate_secrets()
    are = "are" if done.values != 1 else "is"
    answer(done, f"{counted(done.values, 'value')} {are} sealed with a new key")


def _scope(project: str | None, shared: bool, server: bool, user: str | None = None) -> str | None:
    """The scope that the options choose; None without one. Raises UsageError for several."""
    chosen = [project_scope(project)] if project is not None else []
    chosen += [SHARED] if shared else []
    chosen += [SERVER] if server else []
    chosen += [user_scope(user)] if user is not None else []
    if len(chosen) > 1:
        raise click.UsageError("a secret has one owner: give one of --project, --shared, --server, --user")
    return chosen[0] if chosen else None


def usage_of(secret: Secret) -> str:
    """How to give the secret to a run."""
    name = secret.name
    if secret.form is None:
        return f"a run file says 'secrets: {{VARIABLE: {name}}}', the command line '--secret VARIABLE={name}'"
    return (
        f"a run file says 'secrets: [{name}]', the command line '--secret {name}'; given as {form_of(secret)}"
    )


def _value(name: str, path: Path | None) -> str:
    """The value, from a prompt, standard input or a file."""
    if path is None and sys.stdin.isatty():
        typed: str = click.prompt(f"value of {name}", hide_input=True, err=True)
        return typed
    try:
        if path is None or str(path) == "-":
            data = sys.stdin.buffer.read(MOST_BYTES + 2)
        else:
            with path.expanduser().open("rb") as file:
                data = file.read(MOST_BYTES + 2)
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror}") from None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise click.UsageError("the value is not text in UTF-8; keep it as base64") from None
    single = text.count("\n") <= 1
    return text.removesuffix("\n").removesuffix("\r") if single else text
