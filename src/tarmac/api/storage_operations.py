"""The operations on artifacts, datasets and secrets, and on the server itself.

Bound by `server.routes`, called by `client`.
"""

from typing import Any, cast

from tarmac.api.cluster_operations import Time
from tarmac.api.files import Artifact, ArtifactContent, Rotation
from tarmac.api.operation import BYTES, Body, Count, Operation, Query
from tarmac.api.server import Health, Version
from tarmac.model.actor import Action
from tarmac.model.run_records import Dataset
from tarmac.model.secret import Secret, SecretForm


class ArtifactsQuery(Query, frozen=True, kw_only=True):
    """Only the artifacts of the run `run`; or with `limit` the newest ones of all runs, newest run first.

    `text` is their kind, part of the name of their runs, or the beginning of their ids.
    """

    run: str | None = None
    text: str = ""
    limit: Count | None = None


class ArtifactQuery(Query, frozen=True, kw_only=True):
    """The kind of the artifact, for a reference that is a run."""

    kind: str = "checkpoint"


class ArtifactFileQuery(Query, frozen=True, kw_only=True):
    """The path of a file within the artifact."""

    path: str


class DatasetBody(Body, frozen=True, kw_only=True):
    """A dataset to add: `source` is an absolute path on the server's machine, or a URL that fsspec knows."""

    id: str
    source: str


class SecretBody(Body, frozen=True, kw_only=True):
    """A value to store. Runs that only name it get it in `form`, as `variable` or as the file `path`."""

    value: str
    form: SecretForm | None = None
    variable: str | None = None
    path: str | None = None


class SecretQuery(Query, frozen=True, kw_only=True):
    """The owner of the secret: `scope` is `user:NAME`, `project:NAME`, empty for everyone, or `server`.

    Without it, the secret is the caller's own. Administrators alone set the last two.
    """

    scope: str | None = None


class RemoveSecretQuery(SecretQuery, frozen=True, kw_only=True):
    """`force`: even if a run needs the secret. `purge` deletes its values as well.

    Without `scope`, the secret is the caller's own, else the only one of that name.
    """

    force: bool = False
    purge: bool = False


class AnnouncementBody(Body, frozen=True, kw_only=True):
    """The text for all users of the server ("": none), and when it is over (null: once it is cleared)."""

    text: str
    until_at: Time | None = None


ARTIFACTS = Operation("GET", "/artifacts", Action.READ, list[Artifact], query=ArtifactsQuery)
ARTIFACT = Operation("GET", "/artifacts/{artifact}", Action.READ, ArtifactContent, query=ArtifactQuery)
ARTIFACT_FILE = Operation(
    "GET", "/artifacts/{artifact}/file", Action.READ, bytes, query=ArtifactFileQuery, media=BYTES
)
ARTIFACT_PIECE = Operation("GET", "/artifact-pieces/{piece}", Action.READ, bytes, media=BYTES)
REMOVE_ARTIFACT = Operation("DELETE", "/artifacts/{artifact}", Action.CONTROL, ArtifactContent)
DATASETS = Operation("GET", "/datasets", Action.READ, list[Dataset])
ADD_DATASET = Operation("POST", "/datasets", Action.SUBMIT, Dataset, body=DatasetBody)
REMOVE_DATASET = Operation("DELETE", "/datasets/{dataset}", Action.CONTROL, Dataset)
SECRETS = Operation("GET", "/secrets", Action.READ, list[Secret])
SET_SECRET = Operation("PUT", "/secrets/{secret}", Action.SUBMIT, Secret, query=SecretQuery, body=SecretBody)
REMOVE_SECRET = Operation(
    "DELETE",
    "/secrets/{secret}",
    Action.CONTROL,
    cast("type[Secret | None]", Secret | None),
    query=RemoveSecretQuery,
)
ROTATE_SECRETS = Operation("POST", "/secrets/rotate", Action.MANAGE, Rotation)
VERSION = Operation("GET", "/version", Action.READ, Version)
ANNOUNCE = Operation("PUT", "/announcement", Action.MANAGE, Version, body=AnnouncementBody)
STOP_SERVER = Operation("POST", "/server/stop", Action.MANAGE, dict[str, Any], status=202)
HEALTH = Operation("GET", "/healthz", Action.OPEN, Health, base="")
SERVER_METRICS = Operation("GET", "/metrics", Action.READ, str, media="text/plain", base="")
