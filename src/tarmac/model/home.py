"""The tarmac home: its place and the names of its files.

`client` (which starts an embedded server there) and `server` (which runs there) both read this; neither
imports the other. This module does not touch the disk, and does not import pathlib: a short command takes a
twentieth of its time for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tarmac.model.errors import InvalidInput

if TYPE_CHECKING:
    from pathlib import Path

HOME_VARIABLE = "TARMAC_HOME"

INHERITED_VARIABLES = ("PATH", "VIRTUAL_ENV", "CONDA_PREFIX")
"""Variables of the submitter's shell that a user's own server gets, so that a run finds the same programs."""

SOCKET = "server.sock"
GATEWAY_SOCKET = "gateway.sock"

ALREADY_SERVED = 3
"""Exit code of a server that finds another one serving its home."""


class Home:
    """The paths under one tarmac home. `root` is absolute."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.database = root / "tarmac.db"
        # The damage found in the database at its last check; exists only then.
        self.damage = root / "tarmac.db.damage"
        self.socket = root / SOCKET
        # The socket where the gateway answers runs of other machines; exists while the gateway is on.
        self.gateway = root / GATEWAY_SOCKET
        self.lock = root / "server.lock"
        self.log = root / "server.log"
        # The id by which databases know this home; it moves with the home.
        self.identity = root / "home-id"
        # The directories of runs and of their attempts.
        self.runs = root / "runs"
        self.token = root / "token"
        # The loopback address of the page, once a user has opened it.
        self.page = root / "page-address"
        # The authority for TLS in a lab, and the certificate that it signed.
        self.tls = root / "tls"
        # The sessions of the gateway that their users have ended.
        self.logouts = root / "logouts.json"
        self.settings = root / "settings.toml"
        # Exists once the user got the note on this machine's slots.
        self.slots_note_marker = root / "slots-note-said"
        # Copies of reports of attempts on other machines, by cluster.
        self.copies = root / "copies"
        # The fetched data of git repositories.
        self.repositories = root / "repositories"
        self.code = root / "code"
        # The artifact store, unless the settings name another.
        self.artifacts = root / "artifacts"
        # The URL of the artifact store that this home uses: it must not be empty from then on.
        self.artifact_store = root / "artifact-store"
        # The keys that seal secrets, unless the settings name another file.
        self.secret_keys = root / "secrets.key"
        # The tokens of clusters that were started on machines, by cluster.
        self.cluster_tokens = root / "cluster-tokens"
        # The keys of rented machines, and the configs of ssh that reach them, by rental.
        self.rentals = root / "rentals"
        # The fetched data of datasets.
        self.datasets = root / "datasets"


def find_home(environment: Mapping[str, str], *, user_home: Path) -> Home:
    """The home at the `home_directory` of an environment."""
    return Home(user_home / home_directory(environment, user_home=str(user_home)))


def home_directory(environment: Mapping[str, str], *, user_home: str) -> str:
    """The directory of the home of an environment: TARMAC_HOME, otherwise XDG's place for state.

    Raises InvalidInput for a relative TARMAC_HOME, because every process has another working directory.
    """
    state = xdg_directory(environment, "XDG_STATE_HOME", f"{user_home}/.local/state")
    directory = environment.get(HOME_VARIABLE) or f"{state}/tarmac"
    if not directory.startswith("/"):
        raise InvalidInput(f"{HOME_VARIABLE} is {directory!r}: it must be an absolute path")
    return directory


def xdg_directory(environment: Mapping[str, str], variable: str, otherwise: str) -> str:
    """The directory of a variable of XDG, which counts only if it is absolute."""
    named = environment.get(variable) or ""
    return named if named.startswith("/") else otherwise
