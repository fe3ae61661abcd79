"""The tarmac home: its place and the names of its files.

`client` (which starts an embedded server there) and `server` (which runs there) both read this; neither
imports the other. This module does not touch the disk.
"""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from tarmac.model.errors import InvalidInput

HOME_VARIABLE = "TARMAC_HOME"
STATE_VARIABLE = "XDG_STATE_HOME"

INHERITED_VARIABLES = ("PATH", "VIRTUAL_ENV", "CONDA_PREFIX")
"""Variables of the submitter's shell that a user's own server gets, so that a run finds the same programs."""

CACHE_VARIABLE = "XDG_CACHE_HOME"

GATEWAY_SOCKET = "gateway.sock"

ALREADY_SERVED = 3
"""Exit code of a server that finds another one serving its home."""


class Home(Struct, frozen=True):
    """The paths under one tarmac home. `root` is absolute."""

    root: Path

    @property
    def database(self) -> Path:
        return self.root / "tarmac.db"

    @property
    def damage(self) -> Path:
        """The damage found in the database at its last check; exists only then."""
        return self.root / "tarmac.db.damage"

    @property
    def socket(self) -> Path:
        return self.root / "server.sock"

    @property
    def gateway(self) -> Path:
        """The socket where the gateway answers runs of other machines; exists while the gateway is on."""
        return self.root / GATEWAY_SOCKET

    @property
    def lock(self) -> Path:
        return self.root / "server.lock"

    @property
    def log(self) -> Path:
        return self.root / "server.log"

    @property
    def identity(self) -> Path:
        """The id by which databases know this home; it moves with the home."""
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
        """The sessions of the gateway for Determined that their users have ended."""
        return self.root / "logouts.json"

    @property
    def settings(self) -> Path:
        return self.root / "settings.toml"

    @property
    def slots_note_marker(self) -> Path:
        """Exists once the user got the note on this machine's slots."""
        return self.root / "slots-note-said"

    @property
    def copies(self) -> Path:
        """Copies of reports of attempts on other machines, by cluster."""
        return self.root / "copies"

    @property
    def repositories(self) -> Path:
        """The fetched data of git repositories."""
        return self.root / "repositories"

    @property
    def code(self) -> Path:
        return self.root / "code"

    @property
    def artifacts(self) -> Path:
        """The artifact store, unless the settings name another."""
        return self.root / "artifacts"

    @property
    def artifact_store(self) -> Path:
        """The URL of the artifact store that this home uses: it must not be empty from then on."""
        return self.root / "artifact-store"

    @property
    def secret_keys(self) -> Path:
        """The keys that seal secrets, unless the settings name another file."""
        return self.root / "secrets.key"

    @property
    def cluster_tokens(self) -> Path:
        """The tokens of clusters that were started on machines, by cluster."""
        return self.root / "cluster-tokens"

    @property
    def datasets(self) -> Path:
        """The fetched data of datasets."""
        return self.root / "datasets"


def find_home(environment: Mapping[str, str], *, user_home: Path) -> Home:
    """The home of an environment: TARMAC_HOME, otherwise XDG's place for state.

    Raises InvalidInput for a relative TARMAC_HOME, because every process has another working directory.
    """
    if named := environment.get(HOME_VARIABLE):
        if not Path(named).is_absolute():
            raise InvalidInput(f"{HOME_VARIABLE} is {named!r}: it must be an absolute path")
        return Home(Path(named))
    state = Path(environment.get(STATE_VARIABLE) or "")
    base = state if state.is_absolute() else user_home / ".local" / "state"
    return Home(base / "tarmac")


def cache_directory(environment: Mapping[str, str], *, user_home: Path) -> Path:
    """The directory for data that can be made again: XDG's place for caches."""
    named = Path(environment.get(CACHE_VARIABLE) or "")
    return (named if named.is_absolute() else user_home / ".cache") / "tarmac"
