"""What surrounds an experiment: resources, environment, mounts, log policies, sections of its harness.

Part of the table: see `table`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any

from tarmac.dialects.determined.priorities import FIRST, LAST
from tarmac.dialects.determined.schema import (
    Alternatives,
    Choice,
    Field,
    Flag,
    Free,
    ListOf,
    MapOf,
    Merge,
    Real,
    Record,
    Union,
    Whole,
    Word,
)
from tarmac.dialects.determined.storage import ABSOLUTE, SECRET
from tarmac.dialects.section import Section

CONTAINERS_ONLY = "is for containers; commands run directly on the nodes here, so it has no effect"
OWN_CLUSTER = "is for the batch system of a Determined cluster; it has no effect here"

_VARIABLE = Word(
    wanted='a variable as "NAME=VALUE"', pattern=r"[A-Za-z_][A-Za-z0-9_]{0,254}(=.*)?", secret=True
)
_VARIABLES = ListOf(item=_VARIABLE, wanted='a list of variables as "NAME=VALUE"')
_IMAGE = Word(wanted="the name of a container image, without blanks,", pattern=r"[^\s\x00-\x1f\x7f]{1,500}")

DEVICE_KINDS = ("cpu", "cuda", "rocm")
FORMER_KINDS = {"gpu": "cuda"}


def _per_kind(shape: Word | ListOf, merge: Merge | None) -> Record:
    return Record(
        fields={kind: Field(shape=shape, merge=merge) for kind in DEVICE_KINDS},
        aliases=FORMER_KINDS,
        synonyms={"nvidia": "cuda", "amd": "rocm"},
    )


def _pod_spec(section: Section, found: Mapping[str, Any]) -> None:
    pod = found.get("pod_spec")
    value = section.get("pod_spec")
    for name in ("name", "name_space", "namespace"):
        metadata = pod.get("metadata") if isinstance(pod, Mapping) else None
        if value is not None and (
            (isinstance(pod, Mapping) and name in pod) or (isinstance(metadata, Mapping) and name in metadata)
        ):
            value.refuse(f"the {name} of a pod cannot be chosen", "take it out")


ENVIRONMENT = Record(
    fields={
        "image": Field(
            shape=Alternatives(
                wanted="the name of an image, or a mapping with cpu, cuda and rocm",
                scalar=_IMAGE,
                table=_per_kind(_IMAGE, None),
            ),
            merge=Merge.DEEP,
        ),
        "environment_variables": Field(
            shape=Alternatives(
                wanted='a list of variables as "NAME=VALUE", or such a list for each of cpu, cuda and rocm',
                items=_VARIABLES,
                table=_per_kind(_VARIABLES, Merge.APPEND),
            ),
            default=[],
            merge=Merge.DEEP,
        ),
        "ports": Field(
            shape=MapOf(item=Whole(least=1, most=65535), wanted="a mapping from names to ports"),
            default={},
            ignored=CONTAINERS_ONLY,
        ),
        "proxy_ports": Field(
            shape=ListOf(
                item=Record(
                    fields={
                        "proxy_port": Field(shape=Whole(least=1, most=65535), required="the port to pass on"),
                        "proxy_tcp": Field(shape=Flag(), default=False),
                        "unauthenticated": Field(shape=Flag(), default=False),
                        "default_service_id": Field(shape=Flag(), default=False),
                    }
                ),
                wanted="a list of mappings with 'proxy_port'",
            ),
            default=[],
            ignored="nothing is passed on here: the port stays one of the node",
        ),
        "force_pull_image": Field(shape=Flag(), default=False, ignored=CONTAINERS_ONLY),
        "registry_auth": Field(
            shape=Record(
                fields={
                    name: Field(shape=SECRET)
                    for name in (
                        *("username", "password", "auth", "email"),
                        *("serveraddress", "identitytoken", "registrytoken"),
                    )
                },
                synonyms={"server": "serveraddress", "server_address": "serveraddress"},
            ),
            ignored=CONTAINERS_ONLY,
        ),
        "add_capabilities": Field(
            shape=ListOf(item=Word(), wanted="a list of capabilities"), default=[], ignored=CONTAINERS_ONLY
        ),
        "drop_capabilities": Field(
            shape=ListOf(item=Word(), wanted="a list of capabilities"), default=[], ignored=CONTAINERS_ONLY
        ),
        **{
            name: Field(
                shape=ListOf(item=Word(), wanted="a list of arguments"), ignored=OWN_CLUSTER, former=True
            )
            for name in ("slurm", "pbs")
        },
        **{
            name: Field(
                shape=Free(),
                refused="has been removed; startup-hook.sh in the context installs what a run needs",
            )
            for name in ("tensorflow", "runtime_packages", "runtime_commands")
        },
        "pod_spec": Field(shape=Free(table=True), ignored="is for Kubernetes; it has no effect here"),
    },
    checks=(_pod_spec,),
    synonyms={
        "env": "environment_variables",
        "variables": "environment_variables",
        "env_variables": "environment_variables",
    },
)

_MEMORY = Word(
    wanted="a size such as 4g or 512MiB", pattern=r"([0-9]*[.])?[0-9]+ ?(([kmgtpKMGTP]([iI]?[bB])?)|[bB])?"
)


def _amounts(section: Section, found: Mapping[str, Any]) -> None:
    size = section.get("shm_size")
    given = found.get("shm_size")
    if size is not None and not (
        (type(given) is int and given >= 0)
        or (isinstance(given, str) and re.fullmatch(_MEMORY.pattern or "", given))
    ):
        size.expected(f"{_MEMORY.wanted}, or a number of bytes")
    if (weight := section.get("weight")) is not None and found.get("weight", 1) <= 0:
        weight.expected("a number above 0")


RESOURCES = Record(
    fields={
        "slots_per_trial": Field(shape=Whole(least=0, most=100_000), default=1),
        "max_slots": Field(shape=Whole(least=0)),
        "weight": Field(shape=Real(), default=1),
        "priority": Field(shape=Whole(least=FIRST, most=LAST)),
        "resource_pool": Field(shape=Word(), default=""),
        "shm_size": Field(
            shape=Alternatives(wanted="a size such as 4g, or a number of bytes", scalar=Free()),
            ignored="runs share /dev/shm of their node here: its size is the node's",
        ),
        "is_single_node": Field(shape=Flag()),
        "devices": Field(
            shape=ListOf(
                item=Alternatives(
                    wanted='a device as "/host/path:/container/path:mrw", or a mapping with host_path',
                    scalar=Word(
                        wanted='a device as "/host/path:/container/path:mrw"',
                        pattern=r"[^:]+:[^:]+(:[mrw]{1,3})?",
                    ),
                    table=Record(
                        fields={
                            "host_path": Field(shape=ABSOLUTE, required="the device on the node"),
                            "container_path": Field(shape=ABSOLUTE, required="the device in the run"),
                            "mode": Field(
                                shape=Word(wanted="some of m, r and w", pattern=r"[mrw]{0,3}"), default="mrw"
                            ),
                        }
                    ),
                ),
                wanted="a list of devices",
            ),
            default=[],
            merge=Merge.PATHS,
            ignored="runs see all devices that their user may use; none is passed on by name",
        ),
        "native_parallel": Field(shape=Flag(), default=False, ignored="has had no effect for a long time"),
        "agent_label": Field(
            shape=Alternatives(wanted="a text", scalar=Word()),
            ignored="has had no effect since 0.20; name a resource_pool",
        ),
        "slots": Field(
            shape=Free(), refused="is for commands and notebooks; an experiment says slots_per_trial"
        ),
    },
    checks=(_amounts,),
    synonyms={
        "gpus": "slots_per_trial",
        "num_gpus": "slots_per_trial",
        "slots_per_trail": "slots_per_trial",
        "pool": "resource_pool",
    },
)


def _mount(section: Section, found: Mapping[str, Any]) -> None:
    value, target = section.get("container_path"), found.get("container_path")
    if value is None or not isinstance(target, str):
        return
    path = posixpath.normpath(target) if target else "."
    if path in (".", "/"):
        value.refuse(f"{target!r} would hide everything the run has", "name a directory of its own")
    elif path == ".." or path.startswith("../"):
        value.refuse(f"{target!r} leaves the work directory", "an absolute path, or one below it")


BIND_MOUNT = Record(
    fields={
        "host_path": Field(shape=ABSOLUTE, required="the file or directory of the node"),
        "container_path": Field(shape=Word(wanted="a path"), required="where the run sees it"),
        "read_only": Field(shape=Flag(), default=False),
        "propagation": Field(
            shape=Choice(words=("rprivate", "private", "rshared", "shared", "rslave", "slave")),
            default="rprivate",
        ),
    },
    checks=(_mount,),
    synonyms={"source": "host_path", "src": "host_path", "target": "container_path", "dst": "container_path"}
    | {"readonly": "read_only", "ro": "read_only"},
)

_ACTIONS = Choice(words=("cancel_retries", "exclude_node"))
_POLICY_LOST = "is checked and kept; this version of tarmac does not watch logs for patterns yet"


def _pattern(section: Section, found: Mapping[str, Any]) -> None:
    value, pattern = section.get("pattern"), found.get("pattern")
    if value is not None and isinstance(pattern, str):
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            value.refuse(f"this is not a regular expression: {error}")


def _one_action(section: Section, _found: Mapping[str, Any]) -> None:
    section.exclude("action", "actions", reason="the two say the same")


LOG_POLICY = Record(
    fields={
        "name": Field(shape=Word()),
        "pattern": Field(shape=Word()),
        "action": Field(
            shape=Alternatives(
                wanted="cancel_retries, exclude_node, or the older form {type: cancel_retries}",
                scalar=_ACTIONS,
                table=Alternatives(
                    wanted="a mapping with 'type'",
                    table=Union(
                        key="type",
                        cases={
                            "cancel_retries": Record(fields={}),
                            "exclude_node": Record(fields={}),
                        },
                    ),
                ),
            )
        ),
        "actions": Field(
            shape=ListOf(
                item=Alternatives(
                    wanted="cancel_retries, exclude_node, or {signal: ...}",
                    scalar=_ACTIONS,
                    table=Record(fields={"signal": Field(shape=Word(), required="the word for the log")}),
                ),
                wanted="a list of actions",
            ),
            former=True,
        ),
        "signal": Field(shape=Word(), former=True),
    },
    checks=(_pattern, _one_action),
    synonyms={"regex": "pattern"},
)

LOG_POLICIES = Field(
    shape=ListOf(item=LOG_POLICY, wanted="a list of mappings with 'pattern'"),
    default=[
        {"name": "CUDA OOM", "pattern": ".*CUDA out of memory.*"},
        {"name": "ECC Error", "pattern": ".*uncorrectable ECC error encountered.*"},
    ],
    merge=Merge.POLICIES,
    ignored=_POLICY_LOST,
)

OPTIMIZATIONS = Record(
    fields={
        "aggregation_frequency": Field(shape=Whole(least=1), default=1),
        "auto_tune_tensor_fusion": Field(shape=Flag(), default=False),
        "average_aggregated_gradients": Field(shape=Flag(), default=True),
        "average_training_metrics": Field(shape=Flag(), default=True),
        "gradient_compression": Field(shape=Flag(), default=False),
        "grad_updates_size_file": Field(shape=Word()),
        "mixed_precision": Field(shape=Choice(words=("O0", "O1", "O2", "O3")), default="O0"),
        "tensor_fusion_cycle_time": Field(shape=Whole(least=0), default=1),
        "tensor_fusion_threshold": Field(shape=Whole(least=0), default=64),
    }
)


def _profiled(section: Section, found: Mapping[str, Any]) -> None:
    begin, end = found.get("begin_on_batch", 0), found.get("end_after_batch")
    if end is not None and end < begin:
        section.refuse(f"end_after_batch ({end}) is before begin_on_batch ({begin})")


PROFILING = Record(
    fields={
        "enabled": Field(shape=Flag(), default=False),
        "begin_on_batch": Field(shape=Whole(least=0), default=0),
        "end_after_batch": Field(shape=Whole(least=0)),
        "sync_timings": Field(shape=Flag(), default=True),
    },
    checks=(_profiled,),
)

RETENTION = Record(
    fields={"log_retention_days": Field(shape=Whole(least=-1, most=32767), required="-1 keeps them for ever")}
)

_ARGUMENTS = ListOf(item=Word(), wanted="a list of arguments")
SLURM = Record(
    fields={
        "slots_per_node": Field(shape=Whole(least=1)),
        "gpu_type": Field(shape=Word()),
        "sbatch_args": Field(shape=_ARGUMENTS, default=[]),
    }
)
PBS = Record(
    fields={
        "slots_per_node": Field(shape=Whole(least=1)),
        "pbsbatch_args": Field(shape=_ARGUMENTS, default=[]),
    }
)
INTEGRATIONS = Record(
    fields={
        "pachyderm": Field(shape=Free(table=True)),
        "webhooks": Field(
            shape=Record(
                fields={
                    "webhook_id": Field(shape=ListOf(item=Whole(), wanted="a list of ids")),
                    "webhook_name": Field(shape=ListOf(item=Word(), wanted="a list of names")),
                    "exclude": Field(shape=Flag(), default=False),
                }
            )
        ),
    }
)
