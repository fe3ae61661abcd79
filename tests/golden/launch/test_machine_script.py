"""The script that a rented machine runs at its first start, as a person reads it."""

from __future__ import annotations

from pathlib import Path

from golden import assert_golden
from tarmac.launch.machine_script import machine_script

HERE = Path(__file__).parent


def test_the_script_of_a_machine_with_a_limit() -> None:
    script = machine_script(
        admitted="ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAdmitted tarmac\n",
        machine_key="-----BEGIN A KEY-----\nb3BlbnNzaC1rZXktdjE=\n-----END A KEY-----\n",
        limit_s=86_399.5,
    )
    assert_golden(HERE / "machine.sh", script)
