"""The section `environment` of an experiment: variables, image, container settings. Part of `fields`."""

from collections.abc import Mapping
from typing import Any

from tarmac.dialects.kinds import secret
from tarmac.dialects.schema import FREE, Alternatives, Field, ListOf, MapOf, Record, Shape
from tarmac.dialects.section import Section
from tarmac.systems.determined.schema import FLAG, NO, PORT, SECRET, TABLE, TEXT, Merge, record, word

CONTAINERS_ONLY = "changes nothing here: a container has what a command on the node has, and no more"
OWN_CLUSTER = "is for the batch system of a Determined cluster; it has no effect here"
DEVICE_KINDS = ("cpu", "cuda", "rocm")
LEGACY_KINDS = {"gpu": "cuda"}


def _per_kind(shape: Shape, merge: Merge | None = None) -> Record:
    rules = dict.fromkeys(DEVICE_KINDS, Field(shape, merge=merge))
    return record(rules, aliases=LEGACY_KINDS, synonyms={"nvidia": "cuda", "amd": "rocm"})


def _pod_spec(section: Section, found: Mapping[str, Any]) -> None:
    pod, value = found.get("pod_spec"), section.get("pod_spec")
    if value is None or not isinstance(pod, Mapping):
        return
    metadata = pod.get("metadata")
    for name in ("name", "name_space", "namespace"):
        if name in pod or (isinstance(metadata, Mapping) and name in metadata):
            value.refuse(f"the {name} of a pod cannot be chosen", "take it out")


_VARIABLES = ListOf(
    secret(word('a variable as "NAME=VALUE"', r"[A-Za-z_][A-Za-z0-9_]{0,254}(?s:=.*)?")),
    'a list of variables as "NAME=VALUE"',
)
_IMAGE = word("the name of a container image, without blanks,", r"[^\s\x00-\x1f\x7f]{1,500}")
_CAPABILITIES = Field(ListOf(TEXT, "a list of capabilities"), [], ignored=CONTAINERS_ONLY)
ARGUMENTS = ListOf(TEXT, "a list of arguments")
_BATCH_ARGUMENTS = Field(ARGUMENTS, ignored=OWN_CLUSTER, legacy=True)
_REMOVED = Field(FREE, refused="has been removed; startup-hook.sh in the context installs what a run needs")
_LOGIN = ("username", "password", "auth", "email", "serveraddress", "identitytoken", "registrytoken")

ENVIRONMENT = record(
    {
        "image": Field(
            Alternatives(
                "the name of an image, or a mapping with cpu, cuda and rocm",
                scalar=_IMAGE,
                table=_per_kind(_IMAGE),
            ),
            merge=Merge.DEEP,
        ),
        "environment_variables": Field(
            Alternatives(
                'a list of variables as "NAME=VALUE", or such a list for each of cpu, cuda and rocm',
                items=_VARIABLES,
                table=_per_kind(_VARIABLES, Merge.APPEND),
            ),
            [],
            merge=Merge.DEEP,
        ),
        "ports": Field(MapOf(PORT, "a mapping from names to ports"), {}, ignored=CONTAINERS_ONLY),
        "proxy_ports": Field(
            ListOf(
                record(
                    {"proxy_port": Field(PORT, required="the port to pass on")}
                    | dict.fromkeys(("proxy_tcp", "unauthenticated", "default_service_id"), NO)
                ),
                "a list of mappings with 'proxy_port'",
            ),
            [],
            ignored="nothing is passed on here: the port stays one of the node",
        ),
        "force_pull_image": Field(FLAG, False),
        "registry_auth": Field(
            record(
                dict.fromkeys(_LOGIN, SECRET),
                synonyms={"server": "serveraddress", "server_address": "serveraddress"},
            )
        ),
        "add_capabilities": _CAPABILITIES,
        "drop_capabilities": _CAPABILITIES,
        "slurm": _BATCH_ARGUMENTS,
        "pbs": _BATCH_ARGUMENTS,
        **dict.fromkeys(("tensorflow", "runtime_packages", "runtime_commands"), _REMOVED),
        "pod_spec": Field(TABLE, ignored="is for Kubernetes; it has no effect here"),
    },
    _pod_spec,
    synonyms=dict.fromkeys(("env", "variables", "env_variables"), "environment_variables"),
)
