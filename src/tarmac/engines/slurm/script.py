"""The job of an attempt: one script, pure text, which the dry run also prints. Called by `SlurmEngine`.

One job is one attempt, or all turns of a cycle run, an attempt each. Its script starts one runner on each
node through `srun` and passes its rank, the names of all nodes and its devices; everything else is in the
attempt directory. It contains no text written by a user. If roles need different nodes, the job is a
heterogeneous one: a component for each kind of node.

A run names the allowed nodes, and gets some of them; Slurm's `--nodelist` gives a job all that it names. So
if a run names more than it needs, all others of its partition are excluded.
"""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

from tarmac.engines.attempts.layout import Layout
from tarmac.engines.attempts.request import AttemptRequest
from tarmac.engines.slurm import files
from tarmac.engines.slurm.partition import Partition, minutes
from tarmac.engines.slurm.queue import NAME_PREFIX
from tarmac.engines.slurm.settings import PoolSettings
from tarmac.launch.batch_script import amended, directive_lines
from tarmac.launch.quoting import quote
from tarmac.model.cluster import HOLD_S
from tarmac.model.resources import ACCELERATOR
from tarmac.node.attempt import protocol, words
from tarmac.node.attempt.document import END_MARGIN_S, BatchLaunch, Launch, NodeLaunch
from tarmac.node.starting import Installation

JOB_VARIABLE = "tarmac_job"
"""The variable with the id of a job that a site knows by another one than Slurm's."""

HETEROGENEOUS = "#SBATCH hetjob"
"""The separator between the directives of two components."""

BODY = """
set -u
cd /
attempt={directory}
# One job runs the attempt: where the answer of sbatch was lost there may be a second, and it leaves here.
job=${{{job}:-$SLURM_JOB_ID}}
if ! (set -o noclobber; echo "$job" > "$attempt/{begun}") 2> /dev/null; then
    echo "job $SLURM_JOB_ID leaves: the attempt has begun elsewhere, or was taken back"
    exit 0
fi
{preparation}# When the job ends: the runners ask their workers to leave before. Slurm 22.05 has to be asked.
ends_at=${{SLURM_JOB_END_TIME:-}}
if ! [[ $ends_at =~ ^[0-9]{{10,12}}$ ]]; then
    ends_at=
    exec {{asked}}< <(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%L 2> /dev/null)
fi
# The nodes by rank, each with its address where its name is none.
names={node_lists} nodes=
[[ $names == *[[,]* ]] && names=$(scontrol show hostnames "$names")
for name in $names; do
    address=
    if ! getent hosts "$name" > /dev/null; then
        address=$(scontrol show node -o "$name" | sed -n 's/.* NodeAddr=\\([^ ]*\\) .*/=\\1/p')
    fi
    nodes="${{nodes:+$nodes,}}$name$address"
done
if [ -z "$ends_at" ]; then
    seconds={seconds} left=
    while read -r line || [ -n "$line" ]; do left=$line; done <&"$asked"
    if [[ $left =~ ^(([0-9]+)-)?(([0-9]+):)?([0-9]+):([0-9]+)$ ]]; then
        hours=$((10#${{BASH_REMATCH[2]:-0}} * 24 + 10#${{BASH_REMATCH[4]:-0}}))
        seconds=$(((hours * 60 + 10#${{BASH_REMATCH[5]}}) * 60 + 10#${{BASH_REMATCH[6]}}))
    fi
    printf -v now '%(%s)T' -1
    ends_at=${{seconds:+$((now + seconds))}}
    exec {{asked}}<&-
fi
# Where there is no limit Slurm says that now, and a year from now a moment later: that is no end.
printf -v year '%(%s)T' -1
((year += 360 * 86400))
((${{ends_at:-0}} < year)) || ends_at=
export attempt nodes ends_at
{run}"""

ONCE = """exec srun {steps}
"""

TURNS = f"""# A cycle run: between two turns the job keeps its nodes, until the server names the next attempt.
turns={{turns}}
trap 'turns=0; kill -TERM "$step" 2> /dev/null' TERM
while true; do
    srun {{steps}} &
    step=$!
    wait "$step" || wait "$step"
    code=$?
    left={HOLD_S} asked='"{words.PREEMPT}"' over='"{words.PREEMPTED}"'
    other=$(grep -h '"ended"' "$attempt"/{protocol.NODES}/*/{protocol.EVENTS_FILE} | grep -v "$over")
    grep -qs "$asked" "$attempt/{protocol.ASK_FILE}" && [ -z "$other" ] && ((--turns > 0)) || turns=0
    until [ -s "$attempt/{files.NEXT}" ] || ((turns <= 0 || left-- <= 0)); do sleep 1; done
    (set -o noclobber; echo none > "$attempt/{files.NEXT}") 2> /dev/null
    read -r attempt < "$attempt/{files.NEXT}"
    [ "$attempt" != none ] || exit "$code"
    (set -o noclobber; echo "$job" > "$attempt/{files.BEGUN}") 2> /dev/null || exit 0
done
"""

STEP = """{group}--nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 {overlap}{cpus}\\
    --export=ALL --cpu-bind=none --kill-on-bad-exit=1 --wait=0 --input=none \\
    bash -c {task}"""

_OF_ONE_TURN = re.compile(r"(\.|attempts/|turns=)[0-9]+\b")
"""The differences between the scripts of two turns: attempt numbers, and the remaining turns."""

KEEP_VARIABLES = f"""# The run starts steps itself, as a job's own script would, with these variables.
declare -px "${{!SLURM_@}}" > "$attempt/{files.VARIABLES}"
"""

TASK = """devices=${{CUDA_VISIBLE_DEVICES:-${{ROCR_VISIBLE_DEVICES:-}}}}
exec {runner} ${{devices:+"$devices"}}"""

_NUMBERED = re.compile(r"(.*?)(0|[1-9][0-9]*)")
"""A name and its number; numbers with leading zeros stay part of the name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmRequest(AttemptRequest):
    """The request for one attempt: its directory, and the script of its job.

    `follows`: the attempt of the previous turn, whose job may still have its nodes; empty if there was none.
    `login_scripts`: scripts for the login node of a site, by the names of their hooks.
    """

    script: str
    follows: str = ""
    login_scripts: Mapping[str, str] = field(default_factory=dict)

    def is_like(self, script: bytes) -> bool:
        """Whether another attempt's script requests the same job, and starts the same runner."""
        return _OF_ONE_TURN.sub("", script.decode(errors="replace")) == _OF_ONE_TURN.sub("", self.script)

    def __str__(self) -> str:
        scripts = {files.SCRIPT: self.script, **self.login_scripts}
        shown = "".join(f"{self.directory / name}:\n{text}\n" for name, text in scripts.items())
        return shown + AttemptRequest.__str__(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResources:
    """The request for each node of a job's component.

    None: of any type, and the site's default memory.
    """

    nodes: int
    cpus: int
    gpus: int = 0
    gpu_type: str | None = None
    memory_mib: int | None = None


def job_script(
    launch: Launch,
    directory: Path,
    *,
    pool: PoolSettings,
    partition: Partition,
    installation: Installation,
    preparation: str = "",
) -> str:
    """The script of the job of a launch; pure. `preparation`: lines before its runners start."""
    components = job_components(launch, partition)
    directives = [
        amended(
            dict(_directives(launch, directory, component, pool, partition)),
            pool.extra,
            launch.batch.directives,
        )
        for component in components
    ]
    runner = installation.join("$attempt", "$SLURM_PROCID", "$nodes", "$ends_at")
    command = " ".join(f'"{word}"' if word.startswith("$") else quote(word) for word in runner)
    limit = directives[0].get("time") or ""
    body = BODY.format(
        directory=quote(str(directory)),
        begun=files.BEGUN,
        job=JOB_VARIABLE,
        seconds=int(limit) * 60 if limit.isdigit() else "",
        preparation=preparation + (KEEP_VARIABLES if launch.batch.starts_steps else ""),
        node_lists=_node_lists(len(components)),
        run=(TURNS if launch.batch.turns else ONCE).format(
            turns=launch.batch.turns,
            steps=_steps(launch, components, directives, TASK.format(runner=command)),
        ),
    )
    lines = list(directive_lines(directives[0]))
    for further in directives[1:]:
        lines += [HETEROGENEOUS, *directive_lines(further)]
    return "\n".join(["#!/bin/bash", *lines]) + body


def with_variables(launch: Launch, layout: Layout) -> Launch:
    """The launch, in which workers that start steps themselves find the file of the job's variables."""
    directory = layout.attempt(launch.attempt_id)
    if not launch.batch.starts_steps or directory is None:
        return launch
    more = {protocol.BATCH_VARIABLES: str(directory / files.VARIABLES)}
    nodes = tuple(
        node._replace(workers=tuple(worker._replace(env={**worker.env, **more}) for worker in node.workers))
        for node in launch.nodes
    )
    return launch._replace(nodes=nodes)


def quote_script(text: str) -> str:
    """A script of several lines as one readable word: only quotes are escaped."""
    return "'" + text.replace("'", "'\\''") + "'"


def job_components(launch: Launch, partition: Partition) -> tuple[JobResources, ...]:
    """The needs of a job's nodes, in the order of their ranks: equal for all nodes of a component.

    Nodes with the same roles belong to one component, as do neighbours with equal needs.
    """
    found: list[JobResources] = []
    for _, alike in groupby(launch.nodes, key=lambda node: _roles(launch, node)):
        resources = _resources(tuple(alike), launch.batch, partition)
        if found and replace(found[-1], nodes=resources.nodes) == resources:
            found[-1] = replace(resources, nodes=found[-1].nodes + resources.nodes)
        else:
            found.append(resources)
    return tuple(found)


def _roles(launch: Launch, node: NodeLaunch) -> frozenset[str]:
    """The roles on a node; none if the job's own script distributes the processes."""
    return frozenset(() if launch.batch.starts_steps else (worker.role for worker in node.workers))


def _resources(nodes: Sequence[NodeLaunch], batch: BatchLaunch, partition: Partition) -> JobResources:
    """The needs of nodes: Slurm gives each node of a component the same, so the largest need decides.

    GPUs are requested by type if the run names one, or there is only one.
    """
    slots = max((slot + 1 for node in nodes for worker in node.workers for slot in worker.slots), default=0)
    cpus = max(math.ceil(sum(worker.cpus for worker in node.workers)) for node in nodes)
    memory = max(sum(worker.memory_bytes for worker in node.workers) for node in nodes)
    gpus = slots if partition.types else 0  # else its slots are processors
    named = {
        batch.slot_types[worker.role]
        for node in nodes
        for worker in node.workers
        if worker.role in batch.slot_types
    }
    kind = _only(named) or _only(partition.types)
    return JobResources(
        nodes=len(nodes),
        cpus=max(cpus or gpus * partition.cpus_per_slot(kind), 0 if gpus else slots, 1),
        gpus=gpus,
        gpu_type=partition.types.get(kind) if kind is not None else None,
        memory_mib=(math.ceil(memory / 2**20) or None) if partition.counts_memory else None,
    )


def _only(names: Collection[str]) -> str | None:
    return next(iter(names)) if len(names) == 1 else None


def _node_lists(components: int) -> str:
    """The expression that names the nodes of all components for `scontrol`, in the order of their ranks."""
    if components == 1:
        return '"$SLURM_JOB_NODELIST"'
    return '"' + ",".join(f"$SLURM_JOB_NODELIST_HET_GROUP_{index}" for index in range(components)) + '"'


def _steps(
    launch: Launch, components: Sequence[JobResources], directives: Sequence[Mapping[str, str]], task: str
) -> str:
    """The words of `srun`: one step, whose ranks continue across components."""
    several = len(components) > 1
    return " : \\\n    ".join(
        STEP.format(
            group=f"--het-group={index} " if several else "",
            nodes=component.nodes,
            overlap="--overlap " if launch.batch.starts_steps else "",
            cpus=f"--cpus-per-task={cpus} " if (cpus := given.get("cpus-per-task")) else "",
            task=quote_script(task),
        )
        for index, (component, given) in enumerate(zip(components, directives, strict=True))
    )


def job_limit_s(launch: Launch, pool: PoolSettings, partition: Partition) -> float | None:
    """The time limit of the job; None: the partition's default.

    If the run needs longer than the maximum of a job, it is that maximum, and another job follows.
    """
    limits = [limit for limit in (pool.wall_time_s, partition.limits.longest_s) if limit is not None]
    if launch.time_limit_s is not None:
        limits.append(launch.time_limit_s + launch.grace_s + END_MARGIN_S)
    return min(limits, default=None)


def _directives(
    launch: Launch, directory: Path, resources: JobResources, pool: PoolSettings, partition: Partition
) -> Iterator[tuple[str, str]]:
    yield "job-name", f"{NAME_PREFIX}{launch.attempt_id}"
    yield "comment", launch.attempt_id
    yield from pool.terms.items()
    yield "nodes", str(resources.nodes)
    known = {node.hostname for node in partition.nodes}
    batch = launch.batch
    several = resources.nodes != len(launch.nodes)
    count = -1 if several else resources.nodes
    yield from node_directives(batch.hostnames, batch.excluded, nodes=count, known=known)
    yield "ntasks-per-node", "1"
    yield "cpus-per-task", str(resources.cpus)
    if resources.gpus:
        untyped = resources.gpu_type in (None, ACCELERATOR)
        yield "gpus-per-node", str(resources.gpus) if untyped else f"{resources.gpu_type}:{resources.gpus}"
    if resources.memory_mib is not None:
        yield "mem", f"{resources.memory_mib}M"
    limit_s = job_limit_s(launch, pool, partition)
    if limit_s is not None:
        yield "time", str(minutes(limit_s))
    yield "no-requeue", ""
    yield "open-mode", "append"
    yield "output", str(directory / files.LOG)


def node_directives(
    hostnames: Collection[str], excluded: Collection[str], *, nodes: int, known: Collection[str]
) -> Iterator[tuple[str, str]]:
    """The directives of a job of `nodes` nodes, in a partition with the `known` ones (none: not read yet)."""
    allowed = [name for name in hostnames if name not in excluded]
    if allowed and (len(allowed) == nodes or not known):
        yield "nodelist", hostlist(allowed[:nodes])
    elif allowed:
        excluded = {*excluded, *(name for name in known if name not in allowed)}
    if excluded:
        yield "exclude", hostlist(excluded)


def hostlist(names: Iterable[str]) -> str:
    """Names in Slurm's short form: `n[1-3,7],login`."""
    numbers: dict[str, list[int]] = {}
    plain = []
    for name in sorted(set(names)):
        match = _NUMBERED.fullmatch(name)
        if match is None or not match[1] or match[1][-1].isdigit():
            plain.append(name)
        else:
            numbers.setdefault(match[1], []).append(int(match[2]))
    grouped = [f"{prefix}{_ranges(sorted(found))}" for prefix, found in numbers.items()]
    return ",".join([*grouped, *plain])


def _ranges(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return str(numbers[0])
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return f"[{','.join(str(first) if first == last else f'{first}-{last}' for first, last in parts)}]"
