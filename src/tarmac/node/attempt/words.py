"""The words of the glossary that runners write into events: asks, outcomes, causes.

Plain text, because `node` imports no other package of tarmac: a test compares them with the enumerations of
`model`.
"""

PAUSE = "pause"
PREEMPT = "preempt"
STOP = "stop"
STOP_NOW = "stop_now"
TIME_LIMIT = "time_limit"
WALL_TIME = "wall_time"
LEASE_EXPIRED = "lease_expired"

LEAVE_STRENGTH = {WALL_TIME: 0, PAUSE: 1, PREEMPT: 1, TIME_LIMIT: 2, STOP: 3, STOP_NOW: 4, LEASE_EXPIRED: 5}
"""A stronger request replaces a weaker one; pause and preempt replace each other.

Only runners request a leave for the end of an attempt's job or for an expired lease.
"""

COMPLETED = "completed"
FAILED = "failed"
STOPPED = "stopped"
PREEMPTED = "preempted"
PAUSED = "paused"
LOST = "lost"

EXIT_CODE = "exit_code"
SIGNAL = "signal"
OUT_OF_MEMORY = "out_of_memory"
COMMAND_NOT_FOUND = "command_not_found"
IMAGE_PULL = "image_pull"
SETUP_FAILED = "setup_failed"
CODE_UNREADABLE = "code_unreadable"
PLATFORM_FAULT = "platform_fault"
NODE_LOST = "node_lost"
USER_REQUEST = "user_request"
PREEMPTION = "preemption"

PLATFORM_FAULTS = frozenset({PLATFORM_FAULT, NODE_LOST, LEASE_EXPIRED})
"""Faults that the run did not cause: the attempt is lost, and retried automatically."""

NOT_FOUND_EXIT = 127
NOT_EXECUTABLE_EXIT = 126
"""The exit codes of shells for a command that is missing or not executable."""
