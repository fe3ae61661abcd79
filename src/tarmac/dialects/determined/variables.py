"""The variables that Determined promises to a trial, declared once. Set by `equip`; its page lists them."""

from __future__ import annotations

from tarmac.model.variables import Giver, Variable

_C, _R = Giver.CONTRACT, Giver.RUNNER

VARIABLES = (
    Variable(
        "DET_MASTER", _C, "`http://127.0.0.1:1`: there is no master to talk to, and this answers so at once"
    ),
    Variable(
        "DET_RETRY_CONFIG", _C, '`{"total": 0}`: the library does not try for half an hour to find a master'
    ),
    Variable("DET_CLUSTER_ID", _C, "UUID of the cluster, the same for all its runs"),
    Variable("DET_AGENT_ID", _C, "name of the node"),
    Variable("DET_SLOT_IDS", _C, "the slots of this node's part, as a JSON list"),
    Variable("DET_EXPERIMENT_ID", _C, "the experiment's number, made from the run's id"),
    Variable("DET_TRIAL_ID", _C, "the trial's number, likewise"),
    Variable("DET_TRIAL_RUN_ID", _C, "number of the attempt, from 1"),
    Variable("DET_TRIAL_SEED", _C, "seed of the trial, from `reproducibility.experiment_seed`"),
    Variable("DET_TASK_ID", _C, "experiment number and a UUID"),
    Variable("DET_TASK_TYPE", _C, "`TRIAL`"),
    Variable("DET_ALLOCATION_ID", _C, "the task's id and the number of the attempt"),
    Variable("DET_SESSION_TOKEN", _C, "`no-access`: no session comes with it"),
    Variable("DET_USER", _C, "who submitted the run"),
    Variable("DET_HPARAMS", _C, "the trial's hyperparameters, as JSON"),
    Variable(
        "DET_EXPERIMENT_CONFIG", _C, "the whole configuration with its defaults, as JSON, secrets masked"
    ),
    Variable("DET_STEPS_COMPLETED", _C, "`0`: what is done is known by the checkpoint alone"),
    Variable(
        "DET_LATEST_CHECKPOINT", _C, "`searcher.source_checkpoint_uuid`; not set where the file names none"
    ),
    Variable("DET_RESOURCES_ID", _C, "UUID of this node's part of the attempt"),
    Variable("DET_RESOURCES_TYPE", _C, "`docker-container`"),
    Variable("DET_CONTAINER_ID", _C, "the same as DET_RESOURCES_ID"),
    Variable("DET_TASK_LOGGING_METADATA", _C, "task, allocation and trial, as JSON"),
    Variable("DET_INTER_NODE_NETWORK_INTERFACE", _C, "GLOO_SOCKET_IFNAME; not set where that is not"),
    Variable("TCD_STARTUP_HOOK", _C, "the cluster's start-up hook; not set where its settings have none"),
    Variable("DET_PYTHON_EXECUTABLE", _C, "`python3`"),
    Variable("DET_USE_TLS", _C, "`false`"),
    Variable("DET_SEGMENT_ENABLED", _C, "`false`"),
    Variable(
        "DET_RUN_DIR", _R, "`/run/determined` where the node allows, else the directory that stands for it"
    ),
    Variable("DET_WORKDIR", _R, "the working directory, where the context lies"),
    Variable("C10D_PORT", _C, "the same as MASTER_PORT"),
    Variable("DTRAIN_SSH_PORT", _C, "a port of this attempt"),
    Variable("INTER_TRAIN_PROCESS_COMM_PORT_1", _C, "a port of this attempt"),
    Variable("INTER_TRAIN_PROCESS_COMM_PORT_2", _C, "a port of this attempt"),
)
