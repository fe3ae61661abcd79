"""Artifacts and datasets through the real program: checkpoints move between nodes and survive their store.

Must-show: a checkpointing run is moved between nodes mid-way, its store lost during a sync and its sidecar
killed at any point; it resumes from the last whole checkpoint, with nothing mixed.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from s3 import BUCKET, CREDENTIALS, Line, s3_server
from shell import LIMIT_S, Shell

T = TypeVar("T")

CLUSTER = "name: site\ndisks: own\nnodes: [{count: 3, slots: 2}]\n"

SDK = """
import os, sys, time, tarmac

found = tarmac.latest_checkpoint()
start = 0
if found is not None:
    parts = sorted(found.glob("part*"))
    told = {part.read_text().split()[0] for part in parts}
    assert len(parts) == 6 and len(told) == 1, f"mixed: {told}"
    start = int(told.pop())
print("start", start, flush=True)
for step in range(start + 1, 100000):
    with tarmac.checkpoint(step, keep=2) as directory:
        for number in range(6):
            (directory / f"part{number}").write_text(f"{step} " + str(number) * 20000)
    print("saved", step, flush=True)
    if tarmac.should_pause():
        sys.exit(0)
    time.sleep(0.2)
"""

ATOMIC = """
import os, signal, sys, time

root = os.environ["CHECKPOINT_ARTIFACT_PATH"]
link = os.path.join(root, "AtomicDirectory.latest_checkpoint")
start = 0
if os.path.islink(link):
    assert os.path.isabs(os.readlink(link)), os.readlink(link)
    found = os.readlink(link)
    told = {open(os.path.join(found, name)).read().split()[0] for name in sorted(os.listdir(found))}
    assert len(os.listdir(found)) == 6 and len(told) == 1, f"mixed: {told}"
    start = int(told.pop())
print("start", start, flush=True)
for step in range(start + 1, 100000):
    directory = os.path.join(root, f"AtomicDirectory_checkpoint_{step}")
    os.makedirs(directory, exist_ok=True)
    for number in range(6):
        with open(os.path.join(directory, f"part{number}"), "w") as file:
            file.write(f"{step} " + str(number) * 20000)
        time.sleep(0.02)
    os.symlink(directory, link + "_temp")
    os.replace(link + "_temp", link)
    print("saved", step, flush=True)
"""

RUN = """
name: train
slots: 2
cluster: site
code: .
pause: {{grace: 20s}}
artifacts: {{checkpoint_every: 1s}}
command: exec {python} {script}
"""


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Iterator[Line]:
    with s3_server() as made:
        for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": made.url}.items():
            monkeypatch.setenv(name, value)
        yield made


def wait_for(ask: Callable[[], T], what: str) -> T:
    """The first answer that says something."""
    deadline = time.monotonic() + LIMIT_S
    while not (answer := ask()):
        assert time.monotonic() < deadline, f"no {what}"
        select.select([], [], [], 0.05)
    return answer


class Site:
    """A run on a cluster whose nodes have disks of their own."""

    def __init__(self, shell: Shell, script: str, settings: str) -> None:
        self.shell = shell
        shell.home.mkdir(mode=0o700)
        (shell.home / "settings.toml").write_text(settings)
        shell.write("site.yaml", CLUSTER)
        shell.write("train.py", script)
        shell.write("run.yaml", RUN.format(python=sys.executable, script="train.py"))
        shell.tarmac("clusters", "add", "site.yaml", code=0)
        shell.tarmac("run", "-d", "run.yaml", code=0)
        self.run_id = shell.json("show", "train")["run"]["id"]

    def events(self, kind: str) -> list[dict[str, object]]:
        directory = self.shell.home / "runs" / self.run_id / "attempts"
        found = []
        for file in sorted(directory.glob("*/nodes/*/events.jsonl")):
            lines = [line for line in file.read_text().splitlines() if line.endswith("}")]
            found += [event for line in lines if (event := json.loads(line))["kind"] == kind]
        return found

    def said(self, word: str, attempt: int) -> list[int]:
        log = self.shell.home / "runs" / self.run_id / "attempts" / str(attempt) / "logs/main.0.0.log"
        text = log.read_text() if log.exists() else ""
        assert "mixed" not in text, text
        return [int(number) for number in re.findall(rf"^{word} (\d+)$", text, re.MULTILINE)]

    def node(self) -> str:
        attempts = self.shell.json("show", "train")["attempts"]
        return str(attempts[-1]["nodes"][0])

    def sidecars(self) -> list[int]:
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                told = path.read_bytes()
            except OSError:
                continue
            if b"tarmac.artifacts.versions.sidecar" in told and str(self.shell.home).encode() in told:
                found.append(int(path.parent.name))
        return found

    def move(self, *, before_leaving: Callable[[], None] = lambda: None) -> None:
        """Off its node, and on to another."""
        self.shell.tarmac("nodes", "drain", self.node(), code=0)
        self.shell.tarmac("pause", "train", code=0)
        before_leaving()
        self.shell.wait_until("train", "paused")
        self.shell.tarmac("resume", "train", code=0)


@pytest.mark.heavy
def test_a_run_moves_between_nodes_while_its_store_and_its_sidecar_fail(shell: Shell, line: Line) -> None:
    """D12, I14: S3 goes away in the middle of an upload, the sidecar is killed again and again."""
    site = Site(shell, SDK, f'[artifacts]\nstore = "s3://{BUCKET}/kept"\npatience = "60s"\n')
    wait_for(lambda: site.events("artifact"), "first version")
    line.cut_after_bytes = 100_000
    wait_for(lambda: line.cuts, "cut in the middle of a sync")
    wait_for(lambda: site.events("notice"), "word of the failing store")
    assert shell.json("show", "train")["run"]["state"] == "running", "a failing sync fails no run"
    for pid in site.sidecars():
        os.kill(pid, signal.SIGKILL)
    first = site.node()

    def leave() -> None:
        """The attempt's end finds the store gone, loses its sidecar, and is still kept whole."""
        wait_for(lambda: site.events("asked"), "ask")
        for pid in wait_for(site.sidecars, "sidecar of the last sync"):
            os.kill(pid, signal.SIGKILL)
        line.mend()

    site.move(before_leaving=leave)
    assert wait_for(lambda: site.said("start", 2), "second attempt") == [site.said("saved", 1)[-1]]
    assert site.node() != first
    assert not list((shell.home / "disks" / first / site.run_id / "artifacts/checkpoint").glob(".unf*"))
    site.move()
    assert wait_for(lambda: site.said("start", 3), "third attempt") == [site.said("saved", 2)[-1]]
    shell.tarmac("stop", "--wait", "train", code=0)


def test_a_run_never_begins_from_nothing_while_its_store_is_away(shell: Shell) -> None:
    """D12, I14: killed in the middle of writing, in the layout of AtomicDirectory with absolute links."""
    store = shell.home.parent / "store"
    site = Site(shell, ATOMIC, f'[artifacts]\nstore = "{store}"\npatience = "2s"\n')
    wait_for(lambda: len(site.events("artifact")) >= 2, "versions")
    away = store.rename(store.with_name("away"))
    store.touch()
    kept = sorted((away / "manifests" / site.run_id / "checkpoint/0").iterdir())
    last = json.loads(kept[-1].read_bytes())
    target = next(entry["target"] for entry in last["entries"] if entry["kind"] == "link")
    first = site.node()
    site.move()  # SIGTERM ends it in the middle of a checkpoint
    told = [str(event["text"]) for event in site.events("notice")]
    assert any(f"it stays on {first}" in text for text in told), told

    def fails_to_fill() -> bool:
        return any("fill" in str(event["text"]) for event in site.events("notice"))

    wait_for(fails_to_fill, "attempt that cannot be filled")
    assert site.said("start", 2) == [], "no worker began"
    store.unlink()
    away.rename(store)

    def resumed() -> list[int]:
        return [step for attempt in range(2, 12) for step in site.said("start", attempt)]

    whole = int(target.rpartition("_")[2])
    assert wait_for(resumed, "resumption")[0] == whole
    assert 0 < whole <= site.said("saved", 1)[-1]
    assert site.node() != first
    shell.tarmac("stop", "--wait", "train", code=0)


def test_artifacts_are_listed_fetched_named_as_input_and_removed(shell: Shell) -> None:
    """I10: by the id of an artifact, or of the run, or by its name; links arrive with what they lead to."""
    shell.write("first.yaml", "name: first\ncode: .\ncommand: bash save.sh\n")
    shell.write(
        "save.sh",
        "cd $CHECKPOINT_ARTIFACT_PATH && mkdir A_checkpoint_1 && echo one > A_checkpoint_1/state &&"
        " ln -s $PWD/A_checkpoint_1 A.latest_checkpoint && echo note > $LOSSY_ARTIFACT_PATH/note\n",
    )
    shell.tarmac("run", "first.yaml", code=0)
    kept = {item["kind"]: item for item in shell.json("artifacts", "ls", "first")["artifacts"]}
    assert kept.keys() == {"checkpoint", "lossy"}
    checkpoint = kept["checkpoint"]["id"]
    assert kept["checkpoint"]["files"] == 1
    assert checkpoint in shell.tarmac("artifacts", "ls", code=0).stdout
    for number, named in enumerate((checkpoint, kept["checkpoint"]["run"], "first")):
        text = f"name: again{number}\ninput_artifacts: [{named}]\n"
        text += "command: cat $CHECKPOINT_ARTIFACT_PATH/A.latest_checkpoint/state\n"
        shell.write("again.yaml", text)
        assert shell.tarmac("run", "again.yaml", code=0).stdout == "one\n"
    shell.write("bad.yaml", f"name: bad\ninput_artifacts: [{checkpoint}9]\ncommand: echo\n")
    refused = shell.tarmac("run", "bad.yaml", code=2)
    assert f"there is no artifact '{checkpoint}9'" in refused.stderr
    assert f"did you mean {checkpoint}?" in refused.stderr
    fetched = shell.tarmac("artifacts", "get", "first", "-o", "out", code=0).stdout
    assert fetched.startswith(f"{checkpoint}: 1 file, ")
    assert (shell.directory / "out/A.latest_checkpoint/state").read_text() == "one\n"
    (shell.directory / "out/A_checkpoint_1/state").write_text("gone bad\n")
    got = shell.json("artifacts", "get", checkpoint, "A_checkpoint_1", "-o", "out")
    assert (got["id"], got["fetched_bytes"]) == (checkpoint, 4)
    assert (shell.directory / "out/A_checkpoint_1/state").read_text() == "one\n"
    lossy = kept["lossy"]["id"]
    assert shell.json("artifacts", "rm", lossy)["id"] == lossy
    assert shell.tarmac("artifacts", "rm", lossy).returncode == 2
    gone = shell.json("show", "again0")["run"]["id"]
    assert shell.tarmac("rm", "-y", "again0", "again1", code=0).stdout.count(" was removed\n") == 2
    assert not (shell.home / "runs" / gone).exists()
    assert {item["run_name"] for item in shell.json("artifacts", "ls")["artifacts"]} == {"first", "again2"}
    waits = f"name: waits\ninput_artifacts: [{checkpoint}]\ncommand: sleep 1000\n"
    shell.write("waits.yaml", waits)
    shell.tarmac("run", "-d", "waits.yaml", code=0)
    kept_back = shell.tarmac("artifacts", "rm", checkpoint, code=2)
    assert "is the input of waits" in kept_back.stderr
    assert "is kept: " in shell.tarmac("rm", "first", "-y", code=2).stderr
    assert "tarmac stop --wait" in shell.tarmac("rm", "waits", "-y", code=2).stderr
    shell.tarmac("stop", "--wait", "waits", code=0)
    shell.tarmac("artifacts", "rm", checkpoint, code=0)
    shell.tarmac("rm", "--name", "*", "-y", code=0)
    assert shell.json("ls", "--all") == {"runs": []}
    assert list((shell.home / "runs").iterdir()) == []


def test_datasets_are_read_only_at_their_path_and_by_variable(shell: Shell) -> None:
    """I8: /data/<dataset-id>; an unknown id is refused at once, with the nearest."""
    dataset = "uds-gentle-brave-otter-250517"
    shell.write("data/sample", "one\n")
    assert shell.json("datasets", "add", dataset, "data")["state"] == "available"
    command = f'cat "$TARMAC_DATASET_{dataset.upper().replace("-", "_")}/sample"; touch data/new 2>&1'
    literal = f"if [ -e /data ]; then cat /data/{dataset}/sample; echo x > /data/{dataset}/sample; fi"
    lines = f"  {command}\n  {literal}\n  true\n"
    shell.write("run.yaml", f"name: reads\ndatasets: [{dataset}]\ncommand: |\n  set +e\n{lines}")
    read = shell.tarmac("run", "run.yaml", code=0)
    assert read.stdout.startswith("one\n")
    assert (shell.directory / "data/sample").read_text() == "one\n"
    shell.write("bad.yaml", f"name: bad\ndatasets: [{dataset[:-1]}8]\ncommand: echo\n")
    refused = shell.tarmac("run", "bad.yaml", code=2)
    assert f"did you mean {dataset}?" in refused.stderr
    shell.tarmac("datasets", "add", dataset, "/nowhere", code=2)
    shell.tarmac("datasets", "rm", dataset, code=0)
    assert shell.json("datasets", "ls")["datasets"] == []
    assert (shell.directory / "data/sample").exists()


def test_a_dataset_from_elsewhere_is_fetched_once(shell: Shell, line: Line) -> None:
    """I8: created, caching, available; one that failed says why, and is tried again."""
    import s3fs

    files = s3fs.S3FileSystem(skip_instance_cache=True)
    files.pipe({f"{BUCKET}/data/a/one": b"1\n", f"{BUCKET}/data/two": b"2\n"})
    shell.tarmac("datasets", "add", "from-s3", f"s3://{BUCKET}/data", code=0)
    shell.tarmac("datasets", "add", "nothing", f"s3://{BUCKET}/nothing", code=0)

    def settled() -> dict[str, dict[str, str]]:
        known = {item["id"]: item for item in shell.json("datasets", "ls")["datasets"]}
        return known if all(item["state"] in ("available", "failed") for item in known.values()) else {}

    known = wait_for(settled, "dataset")
    assert known["from-s3"]["state"] == "available"
    assert known["nothing"]["state"] == "failed"
    assert known["nothing"]["message"]
    shell.write("run.yaml", "datasets: [from-s3]\ncommand: cat $TARMAC_DATASET_FROM_S3/a/one\n")
    assert shell.tarmac("run", "run.yaml", code=0).stdout == "1\n"
    shell.write("bad.yaml", "datasets: [nothing]\ncommand: echo\n")
    assert "could not be fetched" in shell.tarmac("run", "bad.yaml", code=2).stderr
    place = Path(known["from-s3"]["path"])
    shell.tarmac("datasets", "rm", "from-s3", code=0)
    assert not place.exists()
