"""The tarmac home: where it lies and how the files in it are called, said once.

`client` (which starts an embedded server there) and `server` (which lives there) both read this; neither
imports the other. Nothing here touches the disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tarmac.model.errors import InvalidInput

HOME_VARIABLE = "TARMAC_HOME"
STATE_VARIABLE = "XDG_STATE_HOME"

INHERITED_VARIABLES = ("PATH", "VIRTUAL_ENV", "CONDA_PREFIX")
"""What a user's own server is told of the submitter's shell, so that a run finds what the shell finds."""

CACHE_VARIABLE = "XDG_CACHE_HOME"

GATEWAY_SOCKET = "gateway.sock"

ALREADY_SERVED = 3
"""Exit code of a server that finds another one serving its home."""


@dataclass(frozen=True, slots=True)
class Home:
    """The paths under one tarmac home. `root` is absolute."""

    root: Path

    @property
    def database(self) -> Path:
        return self.root / "tarmac.db"

    @property
    def damage(self) -> Path:
        """Says what was wrong with the database when it was last looked through; there only then."""
        return self.root / "tarmac.db.damage"

    @property
    def socket(self) -> Path:
        return self.root / "server.sock"

    @property
    def gateway(self) -> Path:
        """The socket at which the gateway answers runs of other machines; there while it is on."""
        return self.root / GATEWAY_SOCKET

    @property
    def lock(self) -> Path:
        return self.root / "server.lock"

    @property
    def log(self) -> Path:
        return self.root / "server.log"

    @property
    def identity(self) -> Path:
        """The id by which databases know this home; it moves with it."""
        return self.root / "home-id"

    @property
    def runs(self) -> Path:
        """The directories of runs and of their attempts."""
        return self.root / "runs"

    @property
    def token(self) -> Path:
        return self.root / "token"

    @property
    def logouts(self) -> Path:
        """Which sessions of the gateway for Determined their users have ended."""
        return self.root / "logouts.json"

    @property
    def settings(self) -> Path:
        return self.root / "settings.toml"

    @property
    def slots_note_marker(self) -> Path:
        """Exists once the user was told what this machine's slots are."""
        return self.root / "slots-note-said"

    @property
    def copies(self) -> Path:
        """Copies of what attempts report that lie on other machines, by cluster."""
        return self.root / "copies"

    @property
    def repositories(self) -> Path:
        """What was fetched of git repositories."""
        return self.root / "repositories"

    @property
    def code(self) -> Path:
        return self.root / "code"

    @property
    def artifacts(self) -> Path:
        """The artifact store, where the settings name no other."""
        return self.root / "artifacts"

    @property
    def artifact_store(self) -> Path:
        """Says which artifact store this home has begun: an empty one is none from then on."""
        return self.root / "artifact-store"

    @property
    def secret_keys(self) -> Path:
        """The keys that secrets are sealed with, where the settings name no other file."""
        return self.root / "secrets.key"

    @property
    def cluster_tokens(self) -> Path:
        """The tokens of clusters that were started on machines, by cluster."""
        return self.root / "cluster-tokens"

    @property
    def datasets(self) -> Path:
        """What was fetched of datasets."""
        return self.root / "datasets"


def find_home(environment: Mapping[str, str], *, user_home: Path) -> Home:
    """The home that an environment names: TARMAC_HOME, else the place XDG gives to state.

    Raises InvalidInput for a relative TARMAC_HOME: every process would read it from where it stands.
    """
    if named := environment.get(HOME_VARIABLE):
        if not Path(named).is_absolute():
            raise InvalidInput(f"{HOME_VARIABLE} is {named!r}: it must be an absolute path")
        return Home(Path(named))
    state = Path(environment.get(STATE_VARIABLE) or "")
    base = state if state.is_absolute() else user_home / ".local" / "state"
    return Home(base / "tarmac")


def cache_directory(environment: Mapping[str, str], *, user_home: Path) -> Path:
    """Where what can be found out again is kept: the place XDG gives to caches."""
    named = Path(environment.get(CACHE_VARIABLE) or "")
    return (named if named.is_absolute() else user_home / ".cache") / "tarmac"
