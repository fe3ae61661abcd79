"""Whether runs on this machine can run as a system user. Called by the engines `local` and `slurm`."""

from tarmac.model.errors import Refused
from tarmac.node.kernel import system_users

HINT = "an admin of the server sets it: tarmac users set NAME --runs-as USER"


def check_system_user(name: str, least_uid: int | None) -> None:
    """Raise Refused, with the reason, if this process cannot start programs of this user."""
    if system_users.is_own(name):
        return
    try:
        system_users.find(name, least_uid or system_users.LEAST_UID)
    except system_users.Refused as problem:
        raise Refused(f"runs cannot run as the system user {name}: {problem}", hint=HINT) from None
