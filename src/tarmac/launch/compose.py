"""From a run, its attempt and their nodes to a `Launch`: everything that starts a worker.

Called by `control`, for the attempt itself and for a dry run. Pure: facts that only a node knows are left to
its runner. Commands of workers, setup steps and hooks load the run's modules. A run for a site is one script
on the node of rank 0, like its batch job; on a cluster that starts it by a job, it is the script of the site.
"""

import json
import re
from collections.abc import Mapping, Sequence

from tarmac.launch.batch_script import site_directives
from tarmac.launch.environment import environments, filled
from tarmac.launch.quoting import quote
from tarmac.launch.site_steps import batch_steps, find_module_command, load_modules, rehearsed_steps
from tarmac.launch.topology import Assignment, assignments
from tarmac.model import spec as model
from tarmac.model.cluster import Disks, Node
from tarmac.model.lifecycle import Mode
from tarmac.model.resources import ACCELERATOR, is_of_type
from tarmac.model.run import Allocation, Attempt, Run
from tarmac.model.secret import S3_VARIABLES, SecretForm, SecretUse, registry_secrets, variables_of
from tarmac.node.attempt import document
from tarmac.node.attempt.document import Argv, Launch, Mount, NodeLaunch, SecretLaunch, WorkerLaunch
from tarmac.node.attempt.protocol import ARTIFACT_KINDS
from tarmac.node.attempt.steps import AptStep, CheckoutStep, CommandStep, PipStep, Step
from tarmac.node.container.reference import ALWAYS

LEAST_LIMIT_S = 1.0
"""The time limit of an attempt whose run has used up its own: the attempt ends by it with that cause."""


def compose(run: Run, attempt: Attempt, nodes: Mapping[str, Node]) -> Launch:
    """The launch of an attempt; `nodes` maps at least the names in its allocation to their facts."""
    spec, placed = run.spec, _placed(run.spec, attempt)
    container = container_launch(spec)
    environment = environments(run, attempt, nodes, in_container=container is not None)

    def worker(assignment: Assignment) -> WorkerLaunch:
        return WorkerLaunch(
            role=assignment.role.name,
            replica=assignment.placement.replica,
            worker=assignment.index,
            argv=worker_argv(spec, assignment.process.command, of=assignment),
            env=environment.of(assignment, neighbours=len(placed[assignment.placement.node])),
            slots=assignment.slots,
            stop_on_failure=assignment.role.on_failure is model.FailureBehaviour.STOP,
            cpus=assignment.limits.cpus,
            memory_bytes=assignment.limits.memory_bytes,
            rank=assignment.rank,
        )

    return Launch(
        attempt_id=attempt.id,
        run_id=run.id,
        run_name=run.name,
        number=attempt.number,
        token=attempt.token,
        code_digest=run.code_digest,
        setup=setup_launches(spec),
        setup_env=environment.setup,
        nodes=tuple(
            _node(spec, nodes[name], rank, tuple(worker(assignment) for assignment in assigned))
            for rank, (name, assigned) in enumerate(placed.items())
        ),
        time_limit_s=_time_left_s(run),
        pause_signal=spec.pause.signal,
        grace_s=spec.pause.grace_s,
        ran_s=run.ran_s,
        allotted_s=attempt.allotted_s,
        hooks=hooks_launch(spec),
        allots_setup=spec.mode is not Mode.CYCLE,  # a turn begins when its workers run, a block when placed
        sync=document.ArtifactSync(_every_s(spec.artifacts), spec.input_artifacts),
        secrets=secret_launches(spec.secrets),
        batch=_batch(run, attempt.allocation),
        log_policies=tuple(
            document.LogPattern(policy.pattern, policy.label, policy.action) for policy in spec.log_policies
        ),
        container=container,
        rehearsal=spec.rehearsal is not None,
        runs_as=document.RunsAs(spec.system_user) if spec.system_user is not None else None,
    )


def _node(spec: model.RunSpec, node: Node, rank: int, workers: tuple[WorkerLaunch, ...]) -> NodeLaunch:
    return NodeLaunch(
        node=node.name,
        address=node.address,
        rank=rank,
        workers=workers,
        files=_files(spec),
        mounts=_mounts(spec),
        own_disk=node.disks is Disks.OWN,
    )


def _every_s(rules: model.ArtifactRules) -> Mapping[str, float]:
    return {kind: getattr(rules, f"{kind}_every_s") for kind in ARTIFACT_KINDS}


def _placed(spec: model.RunSpec, attempt: Attempt) -> dict[str, list[Assignment]]:
    """The workers of each node.

    A batch job begins on its first node and starts processes on the others itself.
    """
    placed: dict[str, list[Assignment]] = {name: [] for name in attempt.allocation.nodes}
    for assignment in assignments(spec.roles, attempt.allocation):
        if spec.site is None or assignment.node_rank == 0:
            placed[assignment.placement.node].append(assignment)
    return placed


def _time_left_s(run: Run) -> float | None:
    """The rest of the time limit, which counts the running time of all attempts together."""
    limit_s = run.spec.time_limit_s
    return None if limit_s is None else max(limit_s - run.ran_s, LEAST_LIMIT_S)


_PARAMETERS = "config/parameters.json"


def _files(spec: model.RunSpec) -> Mapping[str, str]:
    """The small files of every node, by relative path."""
    if spec.parameters is None:
        return {}
    return {_PARAMETERS: json.dumps(spec.parameters, indent=2, ensure_ascii=False) + "\n"}


def _mounts(spec: model.RunSpec) -> tuple[Mount, ...]:
    """The literal paths of every node; binds below the working directory stay relative."""
    binds = tuple(
        Mount(source=bind.source, target=bind.target, read_only=bind.read_only) for bind in spec.binds
    )
    if spec.parameters is None:
        return binds
    return (*binds, Mount(source=_PARAMETERS, target=f"/mnt/{_PARAMETERS}", variables=("TARMAC_PARAMETERS",)))


VALUE, PATH, DIRECTORY = "{value}", "{path}", "{directory}"

SSH_COMMAND = f"ssh -i {PATH} -o IdentitiesOnly=yes -o IdentityAgent=none -o StrictHostKeyChecking=accept-new"


def secret_launches(uses: Sequence[SecretUse]) -> tuple[SecretLaunch, ...]:
    """The secrets of an attempt, each in its form."""
    return tuple(_launch(use)._replace(scope=use.scope) for use in uses)


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


def container_launch(spec: model.RunSpec) -> document.ContainerLaunch | None:
    """The container of a run; None: it has none, or its site's own script starts it (`site_steps`)."""
    image = spec.environment.image
    if image is None or spec.environment.without_container or spec.site is not None:
        return None
    return document.ContainerLaunch(
        image=image,
        pull=ALWAYS if spec.environment.pull_always else "",
        credentials=registry_secrets(spec.secrets),
        shared_memory_bytes=spec.environment.shared_memory_bytes,
    )


def _batch(run: Run, allocation: Allocation) -> document.BatchLaunch:
    """The request for the job of a run."""
    spec = run.spec
    turns_share = spec.mode is Mode.CYCLE and spec.site is None and not spec.secrets
    return document.BatchLaunch(
        pool=allocation.pool,
        slot_types=_slot_types(spec, allocation),
        directives=spec.slurm if spec.site is None else {**site_directives(spec.site), **spec.slurm},
        starts_steps=spec.site is not None and spec.rehearsal is None,
        hostnames=spec.target.hostnames,
        excluded=(*spec.target.excluded, *run.excluded_nodes),
        # A job has the key to the secrets of its first attempt alone.
        turns=spec.max_rapid_cycles - run.turns if turns_share else 0,
    )


def _slot_types(spec: model.RunSpec, allocation: Allocation) -> Mapping[str, str]:
    """The slot type of each role that requests one; roles without a request take any type."""
    found = {}
    for role in spec.roles:
        target = role.slot_type or role.replica_resources.slot_type
        offered = (kind for kind in allocation.slot_types if is_of_type(kind, target))
        if target not in (None, ACCELERATOR) and (kind := next(offered, None)) is not None:
            found[role.name] = kind
    return found


_DATA = "/data"
_DATASET_PREFIX = "TARMAC_DATASET_"


def dataset_variable(dataset_id: str) -> str:
    """The variable with the path of a dataset: its id in capitals, other characters as underscores."""
    return _DATASET_PREFIX + re.sub(r"[^A-Z0-9]", "_", dataset_id.upper())


def with_datasets(launch: Launch, paths: Mapping[str, str]) -> Launch:
    """The launch with these datasets (id -> path on the node) on each of its nodes."""
    mounts = tuple(
        Mount(
            source=path,
            target=f"{_DATA}/{dataset_id}",
            read_only=True,
            variables=(dataset_variable(dataset_id),),
        )
        for dataset_id, path in paths.items()
    )
    if not mounts:
        return launch
    return launch._replace(
        nodes=tuple(node._replace(mounts=(*node.mounts, *mounts)) for node in launch.nodes)
    )


_PROGRAM = re.compile(r"(?:^|[\s;&|(/])(?:mpirun|mpiexec|horovodrun)(?:\s|$)", re.ASCII)
_EXEC = 'exec "$@"'
_PEERS = 'exec python3 -E -S "${PYTHONPATH##*:}/../peers" "$@"'
"""The worker of each node if one of them starts all processes, and the first one if the others have to find
it: see `node/peers`. It is beside the directory that makes `import tarmac` work, which is last on PYTHONPATH.
"""


def worker_argv(
    spec: model.RunSpec, command: model.Command, *, of: Assignment | None = None
) -> tuple[str, ...]:
    """The argv of a worker; `of` is its assignment."""
    if spec.site is not None and spec.rehearsal is None:
        return ("bash", "-l", "-c", "\n".join(batch_steps(spec)))
    if spec.site is not None:
        return ("bash", "-c", "\n".join(rehearsed_steps(spec)))
    words = argv(filled(spec, command))
    if of is not None and of.role.launcher in model.ON_FIRST_NODE:
        words = ("sh", "-c", _PEERS, "sh", "launch", of.placement.node, _starts(command), *words)
    elif of is not None and of.role.launcher is model.Launcher.HOROVOD and of.rank == 0:
        words = ("sh", "-c", _PEERS, "sh", "rendezvous", *words)
    return _with_modules(spec, words)


def _starts(command: model.Command) -> str:
    """Whether a command starts the processes of all nodes `itself`, or runs in `each` slot."""
    return "itself" if _PROGRAM.search(str(command)) is not None else "each"


def setup_launches(spec: model.RunSpec) -> tuple[Step, ...]:
    """The setup steps in their form for a node; commands as argvs."""
    return tuple(_step(spec, step) for step in spec.setup)


def _step(spec: model.RunSpec, step: model.SetupStep) -> Step:
    match step:
        case model.Checkout():
            source = step.repository
            return CheckoutStep(
                source.url,
                step.path,
                branch=source.branch,
                commit=source.commit,
                submodules=source.submodules,
                install=step.install,
            )
        case model.PythonPackages():
            return PipStep(step.requirements, step.upgrade, step.imported)
        case model.SystemPackages():
            return AptStep(step.packages)
        case _:
            return CommandStep(_with_modules(spec, argv(filled(spec, step))))


def hooks_launch(spec: model.RunSpec) -> Mapping[str, tuple[Argv, ...]]:
    """The hooks as argvs. For a site, those of the first node are part of the script."""
    hooks, on_node = spec.hooks, spec.site is None
    found = {
        "before_login": _login_hook(spec, hooks.before_login),
        "before": _node_hook(spec, hooks.before) if on_node else (),
        "after": _node_hook(spec, hooks.after) if on_node else (),
        "after_login": _login_hook(spec, hooks.after_login),
    }
    return {name: commands for name, commands in found.items() if commands}


def _node_hook(spec: model.RunSpec, commands: tuple[model.Command, ...]) -> tuple[Argv, ...]:
    return tuple(_with_modules(spec, argv(filled(spec, command))) for command in commands)


def _login_hook(spec: model.RunSpec, commands: tuple[model.Command, ...]) -> tuple[Argv, ...]:
    """A login hook loads no modules, which are for nodes; a site's login node has a plain shell."""
    if spec.site is not None:
        return tuple(("bash", "-c", command.script or "") for command in commands)
    return tuple(argv(command) for command in commands)


def _with_modules(spec: model.RunSpec, words: tuple[str, ...]) -> tuple[str, ...]:
    """The command in a shell that has loaded the modules; a rehearsal only reports missing ones."""
    modules = spec.environment.modules
    if not modules:
        return words
    if spec.rehearsal is not None:
        lines = load_modules(modules)
    else:
        lines = [find_module_command(), *(f"module load {quote(name)} || exit" for name in modules)]
    return ("bash", "-c", "\n".join([*lines, _EXEC]), "bash", *words)


_BASH = ("bash", "-eo", "pipefail", "-c")


def argv(command: model.Command) -> tuple[str, ...]:
    """The argv to execute without a shell: the user's own, or bash on the script, its lines as written.

    bash stops at the first command that fails, also inside a pipe, so that no failure is ignored.
    """
    if command.script is not None:
        return (*_BASH, command.script)
    return command.argv or ()
