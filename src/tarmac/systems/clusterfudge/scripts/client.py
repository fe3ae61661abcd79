"""`Client`, the class that a launch script calls. Launches go to tarmac, through `tarmac launch` or directly.

Every call is a JSON request with its answer; `asking` selects the process that answers. Runs on Python 3.9:
see the package.
"""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn

from .answer import Launch, LaunchDetails, details_of, launch_of
from .asking import ask
from .errors import UnsupportedError
from .form import request_form
from .request import CreateLaunchRequest

VENDOR = "api.clusterfudge.com"

_SANDBOXES = "tarmac has no sandboxes: it launches runs on your own nodes"


class BetaClient:
    """The parts of Clusterfudge that were in beta. tarmac has none of them."""

    def __init__(self, channel: Any = None) -> None:
        self.channel = channel

    def list_slurm_jobs(self, req: Any = None) -> NoReturn:  # noqa: ARG002 as scripts call it
        """Raise UnsupportedError."""
        raise UnsupportedError("tarmac does not list what others run on a Slurm cluster; squeue does")

    async def get_sandbox_audit_logs(self, req: Any = None) -> NoReturn:  # noqa: ARG002 as scripts call it
        """Raise UnsupportedError."""
        raise UnsupportedError(_SANDBOXES)


class Client:
    """A connection to tarmac: the user's own (TARMAC_URL, else the embedded server), or `base_url`.

    The vendor's address means the user's own. `api_key` is the token of the server at `base_url`; the
    user's own needs none.
    """

    def __init__(self, base_url: str | None = None, api_key: str | None = None) -> None:
        self.base_url = base_url or f"{VENDOR}:443"
        self.api_key = api_key
        self.beta = BetaClient()

    def create_launch(self, create_launch_request: CreateLaunchRequest) -> Launch:
        """Launch; on return it is durable. An invalid request is a ValueError, no capacity a SchedulingError.

        The launch stores the text of the calling file.
        """
        return self._create(create_launch_request, script=sys._getframe(1).f_code.co_filename)

    def stop_launch(self, launch_id: str | int) -> None:
        """End a launch for good: by its UUID, its number, or its id in tarmac."""
        self._ask({"ask": "stop", "launch": str(launch_id)})

    def get_launch_details(self, launch_id: str | int) -> LaunchDetails:
        """A launch with its processes, counts and logs; named as for `stop_launch`."""
        return details_of(self._ask({"ask": "details", "launch": str(launch_id)}))

    def launch_workstation(self) -> NoReturn:
        """Raise UnsupportedError."""
        raise UnsupportedError("tarmac launches no workstations; a run of your own sshd would be one")

    def __getattr__(self, name: str) -> Any:
        if name in _SANDBOX_CALLS:
            return _no_sandbox
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    def _create(self, request: CreateLaunchRequest, *, script: str) -> Launch:
        form = request_form(request, script=script)
        return launch_of(self._ask({"ask": "create", "request": form}))

    def _ask(self, question: dict[str, Any]) -> Any:
        # The script's earlier output must precede this message.
        sys.stdout.flush()
        url = _url(self.base_url)
        where = {"url": url, "token": self.api_key} if url is not None else {}
        return ask({**question, **where, "directory": os.getcwd()})


_SANDBOX_CALLS = frozenset(
    {"create_sandbox", "claude_computer_use", "delete_sandbox", "write_to_terminal", "kill_terminal"}
    | {"reset_terminal", "reset_all_terminals", "get_terminal_history", "download_file", "download_folder"}
    | {"create_file", "write_to_process", "kill_process", "get_process"}
)


async def _no_sandbox(*_arguments: Any, **_named: Any) -> NoReturn:
    raise UnsupportedError(_SANDBOXES)


def _url(base_url: str) -> str | None:
    """The address of a server in tarmac's form; None for the user's own."""
    bare = base_url.rsplit("://", maxsplit=1)[-1].split("/", maxsplit=1)[0]
    if bare.split(":")[0] == VENDOR:
        return None
    return base_url if "://" in base_url else f"http://{base_url}"
