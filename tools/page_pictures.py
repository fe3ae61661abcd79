"""Take the pictures of the page for the documentation: a browser on the page of a real server with demo runs.

    python tools/page_pictures.py

The server, its users and their runs live in a home of their own for a minute or two. Run by people after a
change of the page; needs `make page`, and a chromium on the PATH.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from PIL import Image
from playwright.sync_api import Browser, ViewportSize, sync_playwright

from tarmac.client import Client

SETTINGS = """
[[local]]
nodes = 14
slots = 8
slot_type = "h100"
hostnames = [{nodes}]
[[local]]
nodes = 4
slots = 4
slot_type = "a100"
hostnames = ["dev1", "dev2", "dev3", "dev4"]
pool = "dev"
""".format(nodes=", ".join(f'"gpu{number:02}"' for number in range(1, 15)))

TRAIN = """
import math, random, sys, time, tarmac
from tarmac import report
given = {"lr": 6e-4, "warmup": 0.1, "done": 1.0, "pace": 0.2, **(tarmac.parameters() or {})}
rng = random.Random(f"{given['lr']} {given['warmup']}")
far = abs(math.log10(given["lr"]) + 3.2) + 2 * abs(given["warmup"] - 0.1)
for step in range(0, int(4000 * given["done"]) + 1, 8):
    done = step / 4000
    loss = 0.9 + 0.25 * far + 6 * math.exp(-7 * done) + rng.gauss(0, 0.08) * (1.2 - done)
    rate = given["lr"] * min(1, done / given["warmup"]) * (0.5 + 0.5 * math.cos(math.pi * done))
    norm = loss / 4 + rng.random() / 3
    report(step=step, **{"train/loss": loss, "train/lr": rate, "train/grad_norm": norm})
    if step % 80 == 0:
        time.sleep(rng.random() * given["pace"])
        accuracy = (0.8 - 0.1 * far) * (1 - math.exp(-6 * done)) + rng.gauss(0, 0.006)
        report(step=step, **{"val/loss": loss + 0.1, "val/accuracy": accuracy})
        print(f"step {step:5d}  loss {loss:.4f}  accuracy {accuracy:.3f}", flush=True)
"""
ENDS = {
    "ends": "",
    "fails": "sys.exit('torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB')",
    "stays": "while True: time.sleep(0.2 + 0 * sum(range(2_000_000)))",
    "idles": "time.sleep(3600)",
}
"""What each demo run does after its training; a node measures whether a run uses its processors."""

SEARCH = """
name: vit-warmup
project: vision
slots: 2
command: {command}
parameters: {{lr: {{log: [0.0001, 0.01]}}, warmup: {{uniform: [0.02, 0.3]}}}}
search: {{method: random, metric: val/accuracy, goal: maximize, max_trials: 20, max_time: 4000, seed: 7}}
"""


class Demo(NamedTuple):
    """A demo run: its user, project and name, its slots, what it does at last, and its training."""

    user: str
    project: str
    name: str
    slots: int
    end: str
    done: float = 1.0
    pool: str = "default"


FIRST = (
    Demo("ben", "vision", "resnet-50", 8, "ends"),
    Demo("chen", "language", "tokenizer-32k", 1, "ends"),
    Demo("dora", "speech", "whisper-small", 8, "fails", 0.3),
    Demo("chen", "language", "llama-1b-lora", 4, "ends"),
)
"""Runs that end before the others begin."""

LAST = (
    Demo("ben", "language", "llama-8b-sft", 32, "stays", 0.72),
    Demo("chen", "language", "llama-8b-reward", 16, "stays", 0.4),
    Demo("dora", "speech", "conformer", 12, "stays", 0.2),
    Demo("ada", "vision", "detr-crops", 8, "idles", 0.1),
    Demo("chen", "language", "eval-mmlu", 4, "stays", 0.1, "dev"),
    Demo("dora", "speech", "notebook", 3, "idles", 0, "dev"),
    Demo("ada", "vision", "segment-anything", 24, "stays", 0.2),
    Demo("ben", "language", "llama-8b-dpo", 32, "ends"),
    Demo("dora", "speech", "whisper-large", 16, "ends"),
)

PICTURES: dict[str, tuple[str, str, Literal["light", "dark"]]] = {
    "runs": ("/", ".status.failed", "light"),
    "curves": ("/run/llama-8b-sft/metrics?smooth=0.6", ".chart canvas", "dark"),
    "nodes": ("/nodes", ".node .slot-used", "light"),
    "experiment": ("/experiment/vit-warmup/plots", "circle", "dark"),
}
"""Each picture: its path, what shows that the page is complete, and its colours."""

SIZE: ViewportSize = {"width": 1280, "height": 800}
LIMIT_MS = 120_000
SETTLE_MS = 2_000
"""Curves are drawn after their points have come."""


def main() -> int:
    """Begin a server with demo runs, and take each picture."""
    target = Path(__file__).resolve().parents[1] / "docs/pictures"
    with tempfile.TemporaryDirectory(prefix="tarmac-pictures-") as place:
        home = Path(place, "home")
        home.mkdir()
        (home / "settings.toml").write_text(SETTINGS)
        with Client(home=home) as owner:
            try:
                fill(owner)
                with sync_playwright() as playwright:
                    path = shutil.which("chromium")
                    browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
                    for name in PICTURES:
                        picture(browser, owner, name, target / f"page-{name}.png")
                    browser.close()
            finally:
                for run in owner.runs(limit=200).runs:
                    owner.stop(run.id, now=True)
                owner.stop_server()
    return 0


def fill(owner: Client) -> None:
    """The users, an experiment, and runs in every state."""
    address = urlsplit(owner.page_address().url)
    people = {}
    for user in ("ada", "ben", "chen", "dora"):
        owner.set_user(user, password="for the pictures only")
        token = owner.add_token("pictures", user=user).text
        people[user] = Client(f"http://{address.netloc}", token=token)
    search = people["ada"].create_experiment(SEARCH.format(command=json.dumps(["python3", "-c", TRAIN]))).id
    for demo in FIRST:
        owner.wait(submit(people[demo.user], demo))
    while owner.experiment(search).state != "ended":
        for trial in owner.trials(search):
            owner.wait(trial.run)
    owner.drain("gpu11", reason="ECC errors, ticket 4711")
    for demo in LAST:
        submit(people[demo.user], demo)
    for person in people.values():
        person.close()


def submit(client: Client, demo: Demo) -> str:
    """Submit a demo run; its id."""
    source = {
        "name": demo.name,
        "project": demo.project,
        "slots": demo.slots,
        "pool": demo.pool,
        "time_limit": "6h",
        "parameters": {"lr": 0.0006, "done": demo.done},
        "command": ["python3", "-c", TRAIN + ENDS[demo.end]],
    }
    return client.submit(json.dumps(source)).id


def picture(browser: Browser, owner: Client, name: str, target: Path) -> None:
    """Take one picture; a palette halves its file, and no colour changes visibly."""
    path, complete, colours = PICTURES[name]
    context = browser.new_context(viewport=SIZE, color_scheme=colours)
    page = context.new_page()
    address = owner.page_address().url
    page.goto(address)
    page.goto(address.partition("/enter")[0] + path)
    page.locator(complete).first.wait_for(timeout=LIMIT_MS)
    page.wait_for_timeout(SETTLE_MS)
    image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    palette = image.quantize(method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    palette.save(target, optimize=True)
    context.close()


if __name__ == "__main__":
    sys.exit(main())
