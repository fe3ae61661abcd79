"""Hostile texts wherever a run or a user can write: nothing is executed, and the page keeps its shape.

Names of runs, projects and users are restricted (docs/using/run-file.md); what is free comes here.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from shell import Shell
from tarmac.client import Client

Open = Callable[..., Page]

IMAGE = "<img src=x onerror=alert(1)>"
LINK = "javascript:alert(1)"
BIDI = "\u202etxt.exe\u2066"
ORDERS = "\x1b]8;;https://example.com\x07click\x1b]8;;\x07\x1b]52;c;ZXZpbA==\x07\x1b[2J"
LONG = "w" * 600
HOSTILE = f"{IMAGE} {LINK} {BIDI} {ORDERS} {LONG}"
PRINTABLE = f"{IMAGE} {LINK} {LONG}"
"""For what takes no control characters."""

PROGRAM = """
import os, sys, tarmac
print(sys.argv[1] + "\\0")
for place in (os.environ["CHECKPOINT_ARTIFACT_PATH"], "."):
    with open(os.path.join(place, sys.argv[2]), "w") as file:
        file.write(sys.argv[1])
tarmac.report(step=1, loss=0.5, **{sys.argv[3]: 1.0, "text": sys.argv[1]})
sys.exit(sys.argv[1] + " the end")
"""

TREE = """
name: search
command: "true"
parameters: {{rate: {{choice: {values}}}}}
search: {{method: grid, metric: loss, max_time: 1}}
"""


def file_name() -> str:
    """As long as a file system allows; `/` and NUL are no parts of names."""
    return f"{IMAGE} {LINK} {BIDI} {ORDERS.replace('/', '')}".ljust(180, "w")


@pytest.fixture(scope="module", autouse=True)
def hostile(client: Client, owner: Shell) -> str:
    """A run, an experiment, a dataset, a token and a drained node with hostile texts; the id of the run."""
    command = [sys.executable, "-c", PROGRAM, HOSTILE, file_name(), PRINTABLE[:200]]
    run = client.submit(
        f"# {BIDI}\nname: hostile\ncommand: {json.dumps(command)}\n",
        overrides={"labels": {"evil": PRINTABLE[:200]}, "env": {"EVIL": HOSTILE}},
        extras={"changes": {"parameters.evil": json.dumps(HOSTILE)}},
    ).id
    client.note(run, HOSTILE)
    client.wait(run)
    client.create_experiment(TREE.format(values=json.dumps([HOSTILE, LINK])))
    place = owner.directory / file_name()
    place.mkdir()
    client.add_dataset("hostile", str(place))
    client.set_user("ada")
    client.add_token(HOSTILE[:200], user="ada")
    [node] = client.nodes()
    client.drain(node.name, reason=HOSTILE[:500])
    return run


PATHS = {
    "runs": ("/?text=hostile&column=name&column=why", "exited with 1"),
    "run": ("/run/hostile", IMAGE),
    "logs": ("/run/hostile/logs", IMAGE),
    "metrics": ("/run/hostile/metrics", IMAGE),
    "files": ("/run/hostile/files", IMAGE),
    "spec": ("/run/hostile/spec", IMAGE),
    "history": ("/run/hostile/history", IMAGE),
    "clone": ("/new?clone=hostile", "Variables"),
    "experiment": ("/experiment/search", LINK),
    "source": ("/experiment/search/source", IMAGE),
    "artifact": ("/artifacts/ID.checkpoint.1", IMAGE),
    "datasets": ("/datasets", IMAGE),
    "tokens": ("/admin", IMAGE),
    "nodes": ("/nodes", IMAGE),
    "compared": (f"/compare?run=hostile&run=hostile&text={IMAGE}", IMAGE),
    "filtered": (f"/?label=evil={IMAGE}&text={LINK}{BIDI}&user={IMAGE}", IMAGE),
    "no page": (f"/{IMAGE}", "no such page"),
}

HIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")

SHOWN = """() => {
  const named = [...document.querySelectorAll('[title], [aria-label]')];
  const names = named.map((each) => `${each.title} ${each.ariaLabel}`);
  return [document.body.innerText, document.title, ...names].join(' ');
}"""

WIDER = """() => [document.documentElement, ...document.querySelectorAll('main, main > *, .columns')]
  .filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.outerHTML.slice(0, 100))"""


@pytest.mark.parametrize("name", PATHS)
def test_hostile_texts_are_shown_as_texts(open_page: Open, client: Client, name: str) -> None:
    path, text = PATHS[name]
    page = open_page()
    ran: list[str] = []
    page.on("dialog", lambda dialog: (ran.append(dialog.message), dialog.dismiss())[1])
    page.goto(page.url.rstrip("/") + path.replace("ID", client.run("hostile").id))
    expect(page.get_by_text(text).or_(page.get_by_title(text)).first).to_be_attached()
    for summary in page.locator("main details:not([open]) > summary").all():
        summary.click()
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        assert HIDDEN.findall(page.evaluate(SHOWN)) == []
        assert page.locator("img[src=x], [onerror], a[href^='javascript:' i]").count() == 0
        assert page.evaluate(WIDER) == []
    assert ran == []
