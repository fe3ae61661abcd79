"""The words of Slurm for the states of a job, and for the reasons why it waits. Called by `observing`.

There is a row for each state in its manual. `squeue` prints one word for a job with several states
(COMPLETING hides its end); an unknown word is a state of a later version, and has no meaning. A row of a
reason also tells whether the job starts by itself in time, or a person must act first; an unknown reason is
shown unchanged.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from tarmac.model.codec import replace
from tarmac.model.progress import CauseCode, NativeStatus, Outcome


class Stage(StrEnum):
    """Whether a job waits, has nodes, or has ended. `unknown`: this word does not show that."""

    WAITS = "waits"
    ACTIVE = "active"
    OVER = "over"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of a state. An end has the outcome of an attempt whose runners could not report it."""

    stage: Stage
    outcome: Outcome = Outcome.LOST
    code: CauseCode = CauseCode.PLATFORM_FAULT
    text: str = ""


SILENT = Meaning(Stage.OVER, text="ended without a word from its runners")
UNKNOWN = Meaning(Stage.UNKNOWN)
GONE = Meaning(Stage.OVER, text="is gone from Slurm's queue, and nothing says how it ended")

_WAITING_STATES = (
    *("PENDING", "EXPEDITING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD"),
    *("SPECIAL_EXIT", "RESV_DEL_HOLD"),
)
_ACTIVE_STATES = (
    *("CONFIGURING", "POWER_UP_NODE", "RUNNING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING"),
    *("COMPLETING", "STAGE_OUT", "UPDATE_DB"),
)

REFUSED, LOGIN_FAILED = "REFUSED", "LOGIN_FAILED"
"""States of a site, not of Slurm: its batch system refused the job, or a command on its login node failed."""

MEANINGS = {
    **dict.fromkeys(_WAITING_STATES, Meaning(Stage.WAITS)),
    **dict.fromkeys(_ACTIVE_STATES, Meaning(Stage.ACTIVE)),
    "COMPLETED": SILENT,
    "FAILED": SILENT,
    "TIMEOUT": Meaning(Stage.OVER, Outcome.PREEMPTED, CauseCode.WALL_TIME, "reached its wall time"),
    "DEADLINE": Meaning(
        Stage.OVER, Outcome.FAILED, CauseCode.TIME_LIMIT, "could not end before its deadline"
    ),
    "OUT_OF_MEMORY": Meaning(
        Stage.OVER, Outcome.FAILED, CauseCode.OUT_OF_MEMORY, "used more memory than its job has"
    ),
    "NODE_FAIL": Meaning(Stage.OVER, Outcome.LOST, CauseCode.NODE_LOST, "lost a node"),
    "BOOT_FAIL": Meaning(Stage.OVER, Outcome.LOST, CauseCode.NODE_LOST, "was given a node that did not boot"),
    REFUSED: Meaning(
        Stage.OVER, Outcome.FAILED, CauseCode.SETUP_FAILED, "was refused by the site's batch system"
    ),
    LOGIN_FAILED: Meaning(
        Stage.OVER, Outcome.FAILED, CauseCode.SETUP_FAILED, "had a command on the login node that failed"
    ),
    "LAUNCH_FAILED": Meaning(Stage.OVER, text="could not be launched on its nodes"),
    "RECONFIG_FAIL": Meaning(Stage.OVER, text="was given a node that could not be configured"),
    "REVOKED": Meaning(Stage.OVER, text="was revoked: another cluster of the federation took it"),
    "PREEMPTED": Meaning(
        Stage.OVER, Outcome.PREEMPTED, CauseCode.PREEMPTION, "was preempted by Slurm for another job"
    ),
    "CANCELLED": Meaning(
        Stage.OVER, Outcome.STOPPED, CauseCode.USER_REQUEST, "was cancelled in Slurm, not through tarmac"
    ),
}


def meaning(state: str) -> Meaning:
    """The meaning of a state of `squeue` or `sacct`: `CANCELLED by 1000` and `CANCELLED+` are CANCELLED."""
    word = state.partition(" ")[0].rstrip("+")
    return MEANINGS.get(word, UNKNOWN)


@dataclass(frozen=True, slots=True)
class Reason:
    """The meaning of a reason. `stuck`: the job never starts unless a person follows `advice`."""

    text: str
    advice: str = ""
    stuck: bool = False


_SHORTER = "Submit it with a shorter --time-limit, or for another --pool."
_SMALLER = "Submit it with fewer slots or nodes, or for another --pool."
_ASK = "tarmac clusters check tries account, partition and QoS; the site says which are yours."
_RELEASE = "scontrol release {job} lets it go."
_SITE = "Only those who run the site can change that."
_LESS_MEMORY = "Submit it with less memory or fewer processors."


def _never(text: str, advice: str) -> Reason:
    return Reason(text, advice, stuck=True)


REASONS = {
    # The job starts in time.
    "Priority": Reason("jobs that come before it wait, too"),
    "Resources": Reason("it is next, and waits for nodes to become free"),
    "Dependency": Reason("a job that it depends on has not ended"),
    "BeginTime": Reason("it may not begin before a certain time: after a requeue that is some 2 minutes"),
    "Licenses": Reason("it waits for a licence that others use"),
    "Reservation": Reason("it waits for its reservation to begin"),
    "Prolog": Reason("its nodes are being prepared"),
    "Cleaning": Reason("its nodes are being cleared up after its last start"),
    "JobArrayTaskLimit": Reason("as many jobs of its array run as may at once"),
    "BurstBufferResources": Reason("it waits for room in the burst buffer"),
    "BurstBufferStageIn": Reason("its data is being brought to the burst buffer"),
    "BurstBufferOperation": Reason("the burst buffer is at work for it"),
    "SchedDefer": Reason("the site lets jobs start a moment after they were submitted"),
    "FedJobLock": Reason("another cluster of the federation looks at it"),
    "ReqNodeNotAvail": Reason(
        "nodes that it needs are down, drained or reserved",
        "It starts when they are back. Where they are reserved for a maintenance, a --time-limit that ends "
        "before it lets the run start now.",
    ),
    "NodeDown": Reason("a node that it needs is down"),
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions": Reason(
        "the nodes that it could have are down, drained or reserved for others"
    ),
    "FrontEndDown": Reason("the machine that starts jobs is down"),
    "PartitionDown": Reason("its partition is closed", "It starts when the site opens the partition."),
    "PartitionInactive": Reason("its partition is closed", "It starts when the site opens the partition."),
    # The job never starts by itself.
    "PartitionTimeLimit": _never("its time limit is longer than its partition allows", _SHORTER),
    "PartitionNodeLimit": _never("it asks for more or fewer nodes than its partition gives a job", _SMALLER),
    "PartitionConfig": _never("it asks for what its partition does not allow", _SMALLER),
    "MaxMemPerLimit": _never("it asks for more memory than a job may have", _LESS_MEMORY),
    "BadConstraints": _never("no node has what it asks for", "Submit it without the constraint, or another."),
    "InvalidAccount": _never("its account does not exist any more, or is not yours", _ASK),
    "InvalidQOS": _never("its QoS does not exist any more, or is not yours", _ASK),
    "AccountNotAllowed": _never("its account may not use its partition", _ASK),
    "QOSNotAllowed": _never("its QoS may not be used with its account or partition", _ASK),
    "AccountingPolicy": _never("the site's accounting does not allow it", _ASK),
    "DependencyNeverSatisfied": _never("what it depends on can never come about any more", "Stop it."),
    "ReservationDeleted": _never("its reservation is gone", "Submit it without the reservation, or another."),
    "JobHeldUser": _never("somebody holds it back, under your name", _RELEASE),
    "JobHeldAdmin": _never("an administrator holds it back", _SITE),
    "JobHoldMaxRequeue": _never("it was put back too often, and is held back", _RELEASE),
    "JobLaunchFailure": _never("it could not be started on its nodes, and is held back", _RELEASE),
    "launch failed requeued held": _never("it could not be started on its nodes, and is held back", _RELEASE),
    "job requeued in held state": _never("it was put back, and is held back", _RELEASE),
    "InactiveLimit": _never("it has reached the site's limit of inactivity", _SITE),
    "DeadLine": _never("it cannot end before its deadline any more", "Submit it again with a later one."),
}
"""The reasons by the words of `squeue`."""

_PATTERNS = (
    (r"(QOS|Assoc)Max\w*Wall\w*", _never("its time limit is longer than a job may have", _SHORTER)),
    (r"(QOS|Assoc)Max\w*(PerJob|PerNode)\w*", _never("it asks for more than a job may have", _SMALLER)),
    (r"(QOS|Assoc)Min\w*", _never("it asks for less than a job has to", "Submit it with more slots.")),
    (
        r"(QOS|Assoc)Grp\w*RunMinutes\w*",
        Reason("the jobs of its group have reserved as much time as they may; theirs passes"),
    ),
    (
        r"(QOS|Assoc)Grp\w*(Minutes|Wall)\w*",
        _never("the budget of its account, or of its QoS, is used up", "Ask the site for more."),
    ),
    (
        r"(QOS|Assoc)(Grp|Max)\w*|(QOS|Association)\w*Limit",
        Reason("you or your group have at work what may be at once; it starts when some of that ends"),
    ),
)
"""The prefixes and suffixes of about a hundred words for limits of associations and QoS."""


def reason_of(text: str) -> Reason | None:
    """The meaning of a reason printed by `squeue`; None for an empty or unknown one."""
    word = text.strip("()").replace("_", " ")
    found = REASONS.get(word) or REASONS.get(word.partition(",")[0])
    if found is not None or not word:
        return found
    return next((reason for form, reason in _PATTERNS if re.fullmatch(form, word)), None)


def explained(status: NativeStatus, exact: Reason | None = None) -> NativeStatus:
    """The status of a job with its reason in plain English, if known.

    `exact`: a more exact reason of this job than Slurm's word.
    """
    reason = exact or reason_of(status.reason)
    if reason is None:
        return status
    advice = reason.advice.format(job=status.id)
    return replace(status, text=reason.text, advice=advice, stuck=reason.stuck)
