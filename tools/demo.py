"""The main job, end to end, as a newcomer should see it once. Called by `make demo`.

Real PyTorch training on two rehearsed nodes is paused in the middle, the server is ended by `kill -9`, the
run is resumed from its checkpoint and finishes. Every command is the real one; every claim is checked, and
the exit code is not 0 if one does not hold. Uses a home of its own and leaves nothing behind.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from follower import Follower, NotSeen

ROOT = Path(__file__).resolve().parents[1]
RUN_FILE = "examples/10-digits-ddp/run.yaml"
POSITION = r"step +(\d+) loss ([\d.]+) accuracy ([\d.]+)%"
PAUSE_AFTER_EPOCH = 6
NEEDED_ACCURACY = 95.0
PATIENCE_S = 120.0


def main() -> int:
    home = Path(tempfile.mkdtemp(prefix="tarmac-demo-"))
    demo = Demo(home)
    try:
        demo.play()
    except (NotSeen, subprocess.SubprocessError) as problem:
        demo.claim(f"the story goes on: {problem}", held=False)
    finally:
        demo.clean_up()
        shutil.rmtree(home, ignore_errors=True)
    return demo.sum_up()


@dataclass(slots=True)
class Demo:
    """The story, what was claimed on the way, and how long each part took."""

    home: Path
    claims: list[tuple[str, bool]] = field(default_factory=list)
    timings: list[tuple[str, float]] = field(default_factory=list)
    follower: Follower | None = None
    killed_pid: int = 0
    began: float = field(default_factory=time.monotonic)

    def play(self) -> None:
        """The whole story, from an empty home to the finished run."""
        paused_at = self.train_until_paused()
        self.kill_server()
        self.resume(paused_at)
        self.finish()

    def train_until_paused(self) -> tuple[str, ...]:
        """Start training on two nodes and pause it; where it stood then, as it said."""
        self.headline("1. Train on two nodes: nothing is set up, no server runs, the home is empty")
        # The nodes are rehearsed on the loopback, so their workers talk over it.
        options = ("--rehearse", "2x1", "--env", "GLOO_SOCKET_IFNAME=lo")
        self.follower = self.start("tarmac", "run", RUN_FILE, *options)
        self.see(r"epoch +1 ", "submitted to first epoch")
        self.see(rf"epoch +{PAUSE_AFTER_EPOCH} ", "training before the pause")

        self.headline("2. Pause it in the middle: the workers agree on a step, save, and leave their slots")
        began = time.monotonic()
        self.call("tarmac", "pause", "digits", "--wait")
        self.timings.append(("pause, with its checkpoint", time.monotonic() - began))
        paused_at = self.see("paused at " + POSITION)
        shown = self.ask("tarmac", "show", "digits", "--json")
        self.claim("the run is paused", held=shown["run"]["state"] == "paused")
        self.claim("it reported its steps", held=(shown["report"] or {}).get("step") == int(paused_at[0]))
        self.claim("it ran on two nodes", held=len(set(shown["attempts"][0]["nodes"])) == 2)
        return paused_at

    def kill_server(self) -> None:
        """End the server as no server should be ended."""
        self.headline("3. kill -9 the server")
        pid = self.ask("tarmac", "server", "status", "--json")["pid"]
        print(f"  $ kill -9 {pid}")
        os.kill(pid, signal.SIGKILL)
        self.killed_pid = pid

    def resume(self, paused_at: tuple[str, ...]) -> None:
        """Go on: a server starts on demand and finds the run as it was."""
        self.headline("4. Resume it: a server starts on demand, finds the run, and starts its second attempt")
        began = time.monotonic()
        self.call("tarmac", "resume", "digits")
        resumed_at = self.see("resumed at " + POSITION)
        self.timings.append(("resume to training again", time.monotonic() - began))
        pid = self.ask("tarmac", "server", "status", "--json")["pid"]
        self.claim("another server answers", held=pid != self.killed_pid)
        before = "step {}, loss {}, accuracy {} %".format(*paused_at)
        after = "step {}, loss {}, accuracy {} %".format(*resumed_at)
        self.claim(f"paused at {before}; resumed at {after}", held=resumed_at == paused_at)
        step, loss, _ = self.see("epoch.*" + POSITION)
        went_on = int(step) > int(paused_at[0]) and float(loss) < 2 * float(paused_at[1])
        self.claim(f"training went on from there: step {step}, loss {loss}", held=went_on)

    def finish(self) -> None:
        """See it through to its end."""
        _, _, accuracy = self.see("finished at " + POSITION, "training after the pause")
        assert self.follower is not None
        code = self.follower.wait(within_s=PATIENCE_S)
        self.headline("5. What is on record")
        self.call("tarmac", "show", "digits")
        shown = self.ask("tarmac", "show", "digits", "--json")
        outcomes = [attempt["outcome"] for attempt in shown["attempts"]]
        self.claim("the run is completed", held=shown["run"]["outcome"] == "completed")
        self.claim("its two attempts ended paused and completed", held=outcomes == ["paused", "completed"])
        self.claim("`tarmac run` followed it to the end and exited with its code, 0", held=code == 0)
        reached = float(accuracy) > NEEDED_ACCURACY
        self.claim(f"accuracy on unseen digits: {accuracy} %, above {NEEDED_ACCURACY:.0f} %", held=reached)

    def clean_up(self) -> None:
        """Leave no process behind, whatever happened."""
        if self.follower is not None:
            self.follower.end()
        for argv in (("tarmac", "stop", "digits"), ("tarmac", "server", "stop")):
            subprocess.run(argv, env=self.environment(), capture_output=True, check=False, timeout=60)

    def sum_up(self) -> int:
        """Print the summary; the exit code."""
        self.headline("Summary")
        for text, held in self.claims:
            print(f"  {'ok    ' if held else 'FAILED'}  {text}")
        print()
        for text, seconds in [*self.timings, ("in all", time.monotonic() - self.began)]:
            print(f"  {seconds:6.1f} s  {text}")
        return 0 if all(held for _, held in self.claims) else 1

    def claim(self, text: str, *, held: bool) -> None:
        """Keep what was claimed for the summary."""
        self.claims.append((text, held))

    def headline(self, text: str) -> None:
        print(f"\n== {text}\n", flush=True)

    def see(self, pattern: str, timing: str | None = None) -> tuple[str, ...]:
        """Wait for a line of the follower; the groups of the match."""
        began = time.monotonic()
        assert self.follower is not None
        match = self.follower.wait_for(pattern, within_s=PATIENCE_S)
        if timing:
            self.timings.append((timing, time.monotonic() - began))
        return match.groups()

    def start(self, *argv: str) -> Follower:
        """Start a command and show what it says as it comes."""
        print(f"  $ {' '.join(argv)}", flush=True)
        return Follower(argv, env=self.environment())

    def call(self, *argv: str) -> None:
        """Run a command and show what it says."""
        print(f"  $ {' '.join(argv)}", flush=True)
        result = subprocess.run(
            argv,
            env=self.environment(),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        for line in (result.stdout + result.stderr).splitlines():
            print(f"    {line}", flush=True)
        result.check_returncode()

    def ask(self, *argv: str) -> Any:
        """What a command says with --json."""
        result = subprocess.run(
            argv, env=self.environment(), cwd=ROOT, stdout=subprocess.PIPE, check=True, timeout=PATIENCE_S
        )
        return json.loads(result.stdout)

    def environment(self) -> dict[str, str]:
        """This environment, with a home of its own and the programs that belong to this Python."""
        programs = Path(sys.executable).parent
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TARMAC_")}
        return {**kept, "TARMAC_HOME": str(self.home), "PATH": f"{programs}{os.pathsep}{kept['PATH']}"}


if __name__ == "__main__":
    sys.exit(main())
