"""A run that cannot load its newest checkpoint resumes from the version before, and says so (I14).

Its own error does not cost the newest one: they are tried in turns.
"""

from __future__ import annotations

import re
import sys

import pytest

from shell import Shell

SITE = "name: site\ndisks: own\nnodes: [{count: 1, slots: 1}]\n"

TRAIN = """
import os, pathlib, sys, time

root = pathlib.Path(os.environ["CHECKPOINT_ARTIFACT_PATH"])
model, broken = root / "model.bin", os.environ["BROKEN"]
found = model.read_text() if model.exists() else "nothing"
print("found", found, flush=True)
if found in broken.split():
    sys.exit("cannot load it" + "!" * int(os.environ["TARMAC_ATTEMPT"]))  # two equal ends would end the run

def save(content):
    (root / "draft").write_text(content)
    (root / "draft").rename(model)
    print("saved", content, flush=True)

if found == "nothing":
    save("one")
    while len(list(pathlib.Path(os.environ["VERSIONS"]).glob("*/checkpoint/0/*"))) < 1:
        time.sleep(0.05)
    save("two")
    time.sleep(3600)
save("three")
"""

RUN = """
name: train
code: .
retries: {retries}
{cluster}
env: {{BROKEN: {broken}, VERSIONS: {versions}}}
pause: {{grace: 5s}}
artifacts: {{checkpoint_every: 1s}}
command: exec {python} train.py
"""


@pytest.mark.heavy
@pytest.mark.parametrize("cluster", ["", "cluster: site"], ids=["shared disk", "own disk"])
@pytest.mark.parametrize(
    ("broken", "found"),
    [("two", ["nothing", "two", "one"]), ("one two", ["nothing", "two", "one", "two", "one"])],
    ids=["the newest is broken", "the program is broken"],
)
def test_the_version_before_is_tried_and_then_the_newest_again(
    shell: Shell, cluster: str, broken: str, found: list[str]
) -> None:
    shell.write("train.py", TRAIN)
    shell.write("site.yaml", SITE)
    shell.write(
        "run.yaml",
        RUN.format(
            python=sys.executable,
            cluster=cluster,
            broken=broken,
            versions=shell.home / "artifacts" / "manifests",
            retries=len(found) - 2,
        ),
    )
    if cluster:
        shell.tarmac("clusters", "add", "site.yaml", code=0)
    shell.tarmac("run", "-d", "run.yaml", code=0)
    shell.until("logs", "train", said="saved two")
    shell.tarmac("pause", "train", code=0)
    shell.wait_until("train", "paused")
    shell.tarmac("resume", "train", code=0)
    shell.until("show", "train", said="begins from")
    shell.wait_until("train", "ended")
    attempts = shell.json("show", "train")["attempts"]
    assert re.findall(r"found (\w+)", shell.tarmac("logs", "train", code=0).stdout) == found
    outcome = "completed" if broken == "two" else "failed"
    assert [attempt["outcome"] for attempt in attempts][2:] == ["failed"] * (len(found) - 3) + [outcome]
    lost = attempts[1]["lost"]
    assert not lost["rejected"], "its successor has begun"
    saved = [attempts[0]["milestones"]["kept"]["at"], attempts[2]["milestones"]["restored"]["at"]]
    assert saved[1] == lost["checkpoint_at"] < saved[0]
    ran_s = attempts[1]["ended_at"] - attempts[1]["started_at"]
    earlier_s = saved[0] - saved[1]
    assert earlier_s < lost["work_s"] <= ran_s + earlier_s, (
        "work ends with the workers, before the attempt does"
    )
    (notice,) = attempts[2]["notices"]
    assert notice["text"].startswith("artifacts (checkpoint): attempt 2 failed soon after it had begun from")
