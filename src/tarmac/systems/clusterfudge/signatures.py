"""The calls that a launch script may make: names, their fields in order, and the type of each field.

Used by `script` to check a launch script without running it. The fields are those of `scripts.request`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from typing import Any

from tarmac.dialects.schema import fields_of
from tarmac.systems.clusterfudge import scripts
from tarmac.systems.clusterfudge.reader import QUEUEING, REPOSITORY, REQUEST
from tarmac.systems.clusterfudge.roles import GROUP, PROCESS, RESOURCES
from tarmac.systems.clusterfudge.scripts import request


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


_TYPES = {
    "str": Takes.TEXT,
    "int": Takes.AMOUNT,
    "bool": Takes.FLAG,
    "Sequence[str]": Takes.TEXTS,
    "list[str]": Takes.TEXTS,
    "Sequence[Job]": Takes.GROUPS,
    "Sequence[Process]": Takes.PROCESSES,
    "Resources": Takes.RESOURCES,
    "Deployment": Takes.DEPLOYMENT,
    "FailureBehaviour": Takes.BEHAVIOUR,
    "QueueingBehaviour": Takes.QUEUEING,
}
"""What the annotations of the request types mean; another one is not checked."""

_NARROWER = {"command": Takes.ARGV, "replicas": Takes.COUNT}


def _parameters(kind: type[Any]) -> tuple[Parameter, ...]:
    """The fields of a request type, in the order of its positional arguments."""
    return tuple(
        Parameter(
            field.name,
            _NARROWER.get(field.name) or _TYPES.get(str(field.type).removesuffix(" | None"), Takes.ANYTHING),
            required=field.default is MISSING,
        )
        for field in fields(kind)
    )


_CLASSES: Sequence[type[Any]] = (
    *(request.ClusterfudgeConfig, request.CreateLaunchRequest, request.Job, request.Process),
    *(request.Resources, request.GitRepo, request.LocalDir, request.QueueingBehaviour),
    *(request.OnReplicaFailureOtherReplicasAreStopped, request.OnReplicaFailureOtherReplicasContinue),
    *(request.ProxiedPath, request.SandboxParams, request.SandboxletConfig),
)
SIGNATURES: Mapping[str, tuple[Parameter, ...]] = {
    "Client": (Parameter("base_url", Takes.TEXT), Parameter("api_key", Takes.TEXT)),
    **{kind.__name__: _parameters(kind) for kind in _CLASSES},
}
"""The calls that are checked."""

OTHER_NAMES = frozenset({*scripts.__all__, "clusterfudge", "sandboxes"} - SIGNATURES.keys())
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
    "CreateLaunchRequest": fields_of(REQUEST).synonyms,
    "QueueingBehaviour": fields_of(QUEUEING).synonyms,
}
"""Words that users often write for a field."""
