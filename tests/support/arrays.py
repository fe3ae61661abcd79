"""An array and runs that wait for it, on a cluster of any engine. Used by the tests of real engines."""

from __future__ import annotations

from itertools import accumulate

from shell import Shell

MEMBER = """echo + >> turns
touch at.$TARMAC_ARRAY_INDEX
if [ $TARMAC_ARRAY_INDEX -lt 2 ]; then until [ -e at.0 ] && [ -e at.1 ]; do sleep 0.1; done; fi
sleep 1
echo - >> turns
echo "$TARMAC_ARRAY_INDEX of $TARMAC_ARRAY_COUNT"
[ $TARMAC_ARRAY_INDEX != 3 ]
"""
"""The first two wait for each other; the fourth fails."""


def try_array_and_chain(shell: Shell, cluster: str) -> None:
    """Two members run at a time; what is to start after them does, or says why it never will."""
    turns = shell.directory / "turns"
    here = ("run", "-d", "--no-code", "--cluster", cluster)
    member = f"cd {shell.directory}; {MEMBER}"
    shell.tarmac(*here, "--name", "sweep", "--array", "0-4%2", "--", "sh", "-c", member, code=0)
    evaluate, publish = (
        shell.tarmac(*here, "--after", other, "--", "echo", "went on", code=0).stdout.strip()
        for other in ("sweep:ended", "sweep")
    )
    shell.tarmac("wait", evaluate, code=0)
    assert shell.tarmac("logs", evaluate, code=0).stdout == "went on\n"
    shell.tarmac("wait", publish, code=1)
    assert "1 of 5 members failed or were stopped" in shell.tarmac("why", publish, code=0).stdout
    assert shell.json("show", publish)["attempts"] == []
    assert shell.tarmac("logs", "sweep", code=0).stdout == "".join(f"{each} of 5\n" for each in range(5))
    assert shell.json("show", "sweep")["array"]["counts"] == {"completed": 4, "failed": 1}
    at_work = list(accumulate(1 if turn == "+" else -1 for turn in turns.read_text().split()))
    assert (len(at_work), max(at_work), at_work[-1]) == (10, 2, 0)
