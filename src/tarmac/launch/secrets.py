"""How a run gets its secrets: variables and files, by form. Called by `launch.compose`.

Values are not known here: the runner fills in `{value}`, `{path}` and `{directory}`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.model.secret import S3_VARIABLES, SecretForm, SecretUse, variables_of
from tarmac.node.attempt.document import SecretLaunch

VALUE, PATH, DIRECTORY = "{value}", "{path}", "{directory}"

SSH_COMMAND = f"ssh -i {PATH} -o IdentitiesOnly=yes -o IdentityAgent=none -o StrictHostKeyChecking=accept-new"


def secret_launches(uses: Sequence[SecretUse]) -> tuple[SecretLaunch, ...]:
    """The secrets of an attempt, each in its form."""
    return tuple(_launch(use) for use in uses)


def _launch(use: SecretUse) -> SecretLaunch:
    name = use.name
    match use.form:
        case SecretForm.FILE:
            variables = dict.fromkeys(sorted(variables_of(use)), PATH)
            target = use.path or f"/secrets/{name}/secret"
            return SecretLaunch(name=name, variables=variables, file=f"{name}/secret", target=target)
        case SecretForm.GIT:
            return SecretLaunch(name=name, variables={"GIT_SSH_COMMAND": SSH_COMMAND}, file=f"{name}/ssh-key")
        case SecretForm.S3:
            variables = dict.fromkeys(sorted(S3_VARIABLES), PATH)
            return SecretLaunch(name=name, variables=variables, file=f"{name}/credentials")
        case SecretForm.DOCKER:
            variables = {"DOCKER_CONFIG": DIRECTORY, "REGISTRY_AUTH_FILE": PATH}
            return SecretLaunch(name=name, variables=variables, file=f"{name}/config.json")
        case SecretForm.REGISTRY:
            return SecretLaunch(name=name)
        case _:
            return SecretLaunch(name=name, variables=dict.fromkeys(sorted(variables_of(use)), VALUE))
