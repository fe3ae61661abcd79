"""Finds the reported metric that is not finite and ended a worker: a launcher's last lines do not show it.

Called by the hook `watch` if the run has `stop_on_nan`.
"""

from __future__ import annotations

from tarmac.node.attempt.protocol import NOT_FINITE
from tarmac.node.files import untrusted
from tarmac.node.files.masking import Mask

_BYTES = 64 * 1024


def newest_not_finite(reports: str, mask: Mask) -> str:
    """`: loss is nan at step 2 (stop_on_nan)`, from the last reports of a node; "" if there is none."""
    try:
        end, _ = untrusted.last_bytes(reports, _BYTES)
    except OSError:
        return ""
    for line in reversed(mask.data(end).split(b"\n")):
        try:
            report = untrusted.parse_object(line)
            for name, value in report["metrics"].items():
                if value in NOT_FINITE:
                    at = "" if report["step"] is None else f" at step {int(report['step'])}"
                    return f": {' '.join(name[:100].split())} is {value}{at} (stop_on_nan)"
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # a worker can also write here
    return ""
