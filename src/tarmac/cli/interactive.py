"""An interactive run: it waits for a session, and ends with it. Used by shell and jupyter.

Its own command only waits. The session stores its process id in a file of the working directory; once that
process is gone, for whatever reason, the run ends by itself, without a request to stop it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac.cli.nearend import Listener, attend, terminal_size
from tarmac.cli.runfile import from_command
from tarmac.cli.views.errors import INTERRUPTED
from tarmac.cli.views.followview import SharedView, standard_view
from tarmac.cli.views.news import News

if TYPE_CHECKING:
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


class NotStarted(Exception):
    """The run ended before its session started; `code` is the exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def begin(client: Client, name: str, overrides: dict[str, Any]) -> str:
    """Submit an interactive run; return its id once it runs. Ctrl-C ends it. Raises NotStarted."""
    text = from_command(("sh", "-c", _WAITING), directory=Path.cwd(), home=Path.home())
    run = client.submit(
        text.text, filename=text.filename, directory=text.directory, overrides={"name": name, **overrides}
    )
    view = standard_view(as_json=False)
    view.submitted(run)
    shared = SharedView(view)
    news = News(client, run["id"], shared)
    news.start()
    try:
        for message in client.follow(run["id"]):
            if message.event == "state":
                news.note_state(message.data["state"])
                if message.data["state"] == "running":
                    return run["id"]
            elif message.event == "end":
                with shared.locked() as shown:
                    shown.end(message.data)
                raise NotStarted(int(message.data["exit_status"] or 0))
    except BaseException as error:
        if not isinstance(error, NotStarted):
            client.stop(run["id"])
        if isinstance(error, KeyboardInterrupt):
            raise NotStarted(INTERRUPTED) from None
        raise
    finally:
        news.stop()
    raise NotStarted(1)


def sit(
    client: Client,
    run_id: str,
    argv: tuple[str, ...],
    *,
    terminal: bool,
    typed: bytes = b"",
    interrupt: int | None = None,
    listener: Listener | None = None,
) -> int:
    """Open the session of an interactive run; return its exit code. The run always ends with it."""
    try:
        session = client.open_session(
            run_id,
            command=["sh", "-c", _BEGINNING, "sh", *argv],
            stdin=terminal or bool(typed),
            terminal=terminal_size() if terminal else None,
        )
    except BaseException:
        client.stop(run_id)
        raise
    return attend(
        session, stdin=terminal, terminal=terminal, typed=typed, interrupt=interrupt, listener=listener
    )
