"""`tarmac shell` opens a terminal beside a worker or in an interactive run, `tarmac jupyter` starts one too.

An interactive run waits for a session, and ends with it. Its own command only waits. The session stores its
process id in a file of the working directory; once that process is gone, for whatever reason, the run ends by
itself, without a request to stop it.
"""

import os
import re
import secrets
import signal
import sys
from typing import Any

import click

from tarmac.cli.commands.exec import attend, needs_terminal, run_command, terminal_size, worker_options
from tarmac.cli.commands.forward import HERE, Forward
from tarmac.cli.dialogue import connect, remark
from tarmac.cli.following import News, standard_view
from tarmac.cli.options import COUNT, complete_cluster, complete_run, repeated, together, variables_option
from tarmac.cli.overriding import overrides as overrides_of
from tarmac.cli.runfile import from_command
from tarmac.cli.views.errors import INTERRUPTED
from tarmac.client import Client

COMING_S = 120
"""Maximum time that the run waits for its session."""

_WAITING = f"""\
left={COMING_S}
until [ -e ".tarmac-session-$TARMAC_RUN_ID" ]; do
  [ $left -gt 0 ] || {{ echo "nobody opened the session within {COMING_S} s" >&2; exit 1; }}
  left=$((left - 1)); sleep 1
done
while kill -0 "$(cat ".tarmac-session-$TARMAC_RUN_ID")" 2>/dev/null; do sleep 1; done
"""

_BEGINNING = 'f=".tarmac-session-$TARMAC_RUN_ID"; echo $$ > "$f.new" && mv "$f.new" "$f" && exec "$@"'
"""The first commands of a session: `$$` stays its process id after exec."""

SHELL = ("sh", "-c", 'exec "${SHELL:-/bin/sh}"')

own_run_options = together(
    click.option("--slots", type=COUNT, metavar="N", help="In a run of its own, with N slots."),
    click.option("--slot-type", metavar="TYPE", help="Slots of this type only."),
    click.option("--pool", metavar="NAME", help="In this pool."),
    click.option("--cluster", metavar="NAME", shell_complete=complete_cluster, help="On this cluster."),
    variables_option,
    repeated("--secret", "secrets", help="Give it the secret NAME. May be repeated."),
    click.option("--time-limit", metavar="DURATION", help="End it after this time, as 90s, 10m, 2h or 1d."),
)
"""Options for a run of its own."""


@click.command()
@click.argument("run", required=False, shell_complete=complete_run)
@own_run_options
@worker_options
def shell(*, run: str | None, **options: Any) -> None:
    """Open a terminal beside a worker of RUN, or with --slots in a run of its own.

    A run of its own waits in the queue as any other, and says what it waits for; its shell begins in a copy
    of the current directory, and it ends when the shell ends. The exit code is that of the shell.

    \b
    tarmac shell digits
    tarmac shell --slots 1
    """
    worker = {name: options.pop(name) for name in ("role", "replica", "worker", "node")}
    overrides = overrides_of(options, None)
    if run is None and options["slots"] is None:
        raise click.UsageError("where? Name a RUN, or give --slots N for a run of its own (0: no slot)")
    if run is not None and overrides:
        raise click.UsageError("a RUN has its slots already: give either RUN or options for a run of its own")
    if run is None and any(value is not None for value in worker.values()):
        raise click.UsageError("a run of its own has one worker: --role and the like go with a RUN")
    needs_terminal("tarmac shell", "tarmac exec -i runs a command without one")
    if run is not None:
        sys.exit(run_command(run, [], stdin=True, terminal=True, worker=worker))
    client = connect()
    run_id = begin(client, "shell", overrides)
    sys.exit(sit(client, run_id, SHELL, terminal=True))


def begin(client: Client, name: str, overrides: dict[str, Any]) -> str:
    """Submit an interactive run; return its id once it runs. Ctrl-C ends it.

    Exits if the run ends before its session has started.
    """
    text = from_command(("sh", "-c", _WAITING), directory=os.getcwd(), home=os.path.expanduser("~"))
    run = client.submit(
        text.text, filename=text.filename, directory=text.directory, overrides={"name": name, **overrides}
    )
    view = standard_view()
    view.submitted(run)
    news = News(client, run.id, view)
    news.start()
    try:
        for message in client.follow(run.id):
            if message.event == "state":
                news.note_state(message.data.state)
                if message.data.state == "running":
                    return run.id
            elif message.event == "end":
                with news.lock:
                    view.end(message.data)
                sys.exit(int(message.data.exit_status or 0))
    except (Exception, KeyboardInterrupt) as error:
        client.stop(run.id)
        if isinstance(error, KeyboardInterrupt):
            sys.exit(INTERRUPTED)
        raise
    finally:
        news.stop()
    sys.exit(1)


def sit(client: Client, run_id: str, argv: tuple[str, ...], *, terminal: bool, **near_end: Any) -> int:
    """Open the session of an interactive run; return its exit code. The run always ends with it.

    `near_end` has further arguments of `attend`.
    """
    try:
        session = client.open_session(
            run_id,
            command=["sh", "-c", _BEGINNING, "sh", *argv],
            stdin=terminal or "typed" in near_end,
            terminal=terminal_size() if terminal else None,
        )
    except BaseException:
        client.stop(run_id)
        raise
    return attend(session, stdin=terminal, terminal=terminal, **near_end)


_LAB = r"""
read -r JUPYTER_TOKEN; export JUPYTER_TOKEN
if ! command -v jupyter-lab > /dev/null; then
  echo "jupyter-lab is not installed where this run is (PATH $PATH): pip install jupyterlab" >&2
  exit 127
fi
[ "$(id -u)" != 0 ] || set -- --allow-root
exec jupyter-lab --no-browser --ip=127.0.0.1 --port=0 "$@"
"""
"""The token comes through standard input: all users of a node see arguments, and every user reads logs."""

_ADDRESS = re.compile(rb"http://127\.0\.0\.1:(\d+)/")


@click.command()
@own_run_options
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=0,
    metavar="N",
    help="The port here; any free one by default.",
)
def jupyter(*, port: int, **options: Any) -> None:
    """Run JupyterLab in a run of its own, and print the URL by which this machine reaches it.

    It begins in a copy of the current directory. Ctrl-C ends it, and its run with it.

    \b
    tarmac jupyter --slots 1
    """
    client = connect()
    forward = Forward(client, local=port, instead="--port")
    token = secrets.token_urlsafe(24)
    run_id = begin(client, "jupyter", overrides_of({**options, "slots": options["slots"] or 0}, None))
    seen = bytearray()

    def listen(data: bytes) -> None:
        """Wait for the address, which JupyterLab prints once it listens."""
        if len(seen) > _MOST_BYTES:
            return
        seen.extend(data)
        found = _ADDRESS.search(seen)
        if found is not None:
            seen.extend(bytes(_MOST_BYTES))
            forward.start(run_id, int(found[1]))
            remark(f"JupyterLab is at http://{HERE}:{forward.local}/lab?token={token}")

    code = sit(
        client,
        run_id,
        ("sh", "-c", _LAB),
        terminal=False,
        typed=f"{token}\n".encode(),
        interrupt=signal.SIGTERM,
        listener=listen,
    )
    sys.exit(code)


_MOST_BYTES = 1 << 20
