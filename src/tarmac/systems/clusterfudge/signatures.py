"""The calls that a launch script may make: names, their fields in order, and the type of each field.

Used by `calls` to check a script without running it; a test holds it to `scripts`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tarmac.dialects.schema import fields_of
from tarmac.systems.clusterfudge.fields import REQUEST, SLOT_TYPES
from tarmac.systems.clusterfudge.reader import QUEUEING, REPOSITORY
from tarmac.systems.clusterfudge.roles import GROUP, PROCESS, RESOURCES


class Takes(StrEnum):
    """The type of a field, in words that complete "... is expected"."""

    TEXT = "a text"
    ARGV = 'a list such as ["python3", "train.py"]'
    TEXTS = "a list of texts"
    COUNT = "a whole number from 1"
    AMOUNT = "a whole number from 0"
    FLAG = "True or False"
    GROUPS = "a list of Job(...)"
    PROCESSES = "a list of Process(...)"
    RESOURCES = "Resources(...)"
    DEPLOYMENT = "LocalDir() or GitRepo(...)"
    BEHAVIOUR = "OnReplicaFailureOtherReplicasAreStopped() or OnReplicaFailureOtherReplicasContinue()"
    QUEUEING = "QueueingBehaviour(...)"
    ANYTHING = "anything"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One field of a call."""

    name: str
    takes: Takes
    required: bool = False


_P = Parameter

SIGNATURES: Mapping[str, tuple[Parameter, ...]] = {
    "Client": (_P("base_url", Takes.TEXT), _P("api_key", Takes.TEXT)),
    "ClusterfudgeConfig": (_P("token", Takes.TEXT, required=True),),
    "CreateLaunchRequest": (
        _P("jobs", Takes.GROUPS, required=True),
        _P("name", Takes.TEXT),
        _P("description", Takes.TEXT),
        _P("deployment", Takes.DEPLOYMENT),
        _P("cluster", Takes.TEXT),
        _P("shard", Takes.TEXT),
        _P("hostnames", Takes.TEXTS),
        _P("queueing_behaviour", Takes.QUEUEING),
    ),
    "Job": (
        _P("short_name", Takes.TEXT, required=True),
        _P("replicas", Takes.COUNT, required=True),
        _P("processes", Takes.PROCESSES, required=True),
        _P("replica_failure_behaviour", Takes.BEHAVIOUR),
        _P("deployment", Takes.DEPLOYMENT),
    ),
    "Process": (_P("command", Takes.ARGV, required=True), _P("resource_requirements", Takes.RESOURCES)),
    "Resources": tuple(_P(name, Takes.AMOUNT) for name in ("cpus", "memory_mb", *SLOT_TYPES)),
    "GitRepo": (
        _P("repo", Takes.TEXT, required=True),
        _P("branch", Takes.TEXT, required=True),
        _P("commit", Takes.TEXT),
    ),
    "LocalDir": (),
    "OnReplicaFailureOtherReplicasAreStopped": (),
    "OnReplicaFailureOtherReplicasContinue": (),
    "QueueingBehaviour": (_P("enqueue_if_cluster_busy", Takes.FLAG),),
    "ProxiedPath": (
        _P("incoming_path", Takes.TEXT, required=True),
        _P("sandbox_port", Takes.ANYTHING, required=True),
    ),
    "SandboxParams": (
        _P("sidecar_file_paths", Takes.TEXTS),
        _P("image_tag", Takes.TEXT),
        _P("display_name", Takes.TEXT),
        _P("sandboxlet_config", Takes.ANYTHING),
    ),
    "SandboxletConfig": (_P("proxied_paths", Takes.ANYTHING), _P("screen_width_height", Takes.ANYTHING)),
}
"""The calls that are checked."""

OTHER_NAMES = frozenset(
    {"AuthenticationError", "BetaClient", "LaunchStatus", "RequestError", "SandboxClient", "SchedulingError"}
    | {"UnsupportedError", "clusterfudge", "sandboxes"}
)
"""Further names in the package."""

MAKES: Mapping[Takes, frozenset[str]] = {
    Takes.RESOURCES: frozenset({"Resources"}),
    Takes.DEPLOYMENT: frozenset({"LocalDir", "GitRepo"}),
    Takes.BEHAVIOUR: frozenset(
        {"OnReplicaFailureOtherReplicasAreStopped", "OnReplicaFailureOtherReplicasContinue"}
    ),
    Takes.QUEUEING: frozenset({"QueueingBehaviour"}),
    Takes.GROUPS: frozenset({"Job"}),
    Takes.PROCESSES: frozenset({"Process"}),
}
"""The classes whose call gives a value of this type, or a member of it for a list."""

SYNONYMS: Mapping[str, Mapping[str, str]] = {
    "Job": fields_of(GROUP).synonyms,
    "Process": fields_of(PROCESS).synonyms,
    "Resources": fields_of(RESOURCES).synonyms,
    "GitRepo": fields_of(REPOSITORY).synonyms,
    "CreateLaunchRequest": REQUEST.synonyms,
    "QueueingBehaviour": fields_of(QUEUEING).synonyms,
}
"""Words that users often write for a field."""
