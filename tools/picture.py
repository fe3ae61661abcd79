"""Draw the terminal session of README as an SVG: real commands on a home of its own, with what they print.

    python tools/picture.py docs/pictures/session.svg

Each command runs in a pseudo-terminal, so that its colours are those that a person sees. Ids and times differ
from one drawing to the next. Run by people after a change of what these commands print.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path

COLUMNS = 88
SETTINGS = '[[local]]\nnodes = 2\nslots = 4\nslot_type = "h100"\nhostnames = ["gpu1", "gpu2"]\n'
RUN_FILE = """\
name: digits
slots: 4
code: .
time_limit: 10m
command: python train.py
"""
SCRIPT = """\
import time, tarmac
start = tarmac.latest_checkpoint()
first = int((start / "step").read_text()) if start else 0
for step in range(first + 1, 1000):
    time.sleep(0.05)
    tarmac.report(step=step, loss=2.3 / step**0.5)
    if step % 20 == 0 or tarmac.should_pause():
        with tarmac.checkpoint(step=step) as directory:
            (directory / "step").write_text(str(step))
    if tarmac.should_pause():
        break
"""
SESSION = (
    "tarmac run digits.yaml --detach",
    "tarmac run digits.yaml --detach --name wide --slots 8",
    "tarmac why wide",
    "tarmac pause digits --wait",
    "tarmac ls",
    "tarmac resume digits",
    "tarmac queue",
)
WAIT_S = 2.5
"""The session is a person's: the first run has trained a little before it is asked about."""

CHARACTER, LINE, MARGIN = 8.4, 19, 16
STYLES = {"1": "b", "2": "d", "31": "r", "32": "g", "33": "y", "34": "u", "35": "m", "36": "c"}
CSS = """\
.s{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#d8dee9;white-space:pre}
.b{font-weight:bold}.d{fill:#8a94a6}.r{fill:#f07178}.g{fill:#a5d67c}.y{fill:#f0c674}.u{fill:#82aaff}
.m{fill:#c792ea}.c{fill:#7fdbca}.p{fill:#7fdbca}"""


def main() -> int:
    """Play the session and write the picture."""
    lines: list[str] = []
    with tempfile.TemporaryDirectory(prefix="tarmac-picture-") as place:
        home, work = Path(place, "home"), Path(place, "work")
        home.mkdir()
        work.mkdir()
        (home / "settings.toml").write_text(SETTINGS)
        (work / "digits.yaml").write_text(RUN_FILE)
        (work / "train.py").write_text(SCRIPT)
        bin_directory = str(Path(sys.executable).parent)
        path = f"{bin_directory}:{os.environ['PATH']}"
        environment = {**os.environ, "TARMAC_HOME": str(home), "PATH": path, "TERM": "xterm-256color"}
        environment |= {"COLUMNS": str(COLUMNS), "LINES": "50"}
        environment.pop("NO_COLOR", None)
        try:
            for number, command in enumerate(SESSION):
                if number == 2:
                    subprocess.run(["sleep", str(WAIT_S)], check=True)
                lines += [f'<tspan class="p">$</tspan> <tspan class="b">{escape(command)}</tspan>']
                lines += [*map(drawn, printed(command, work, environment)), ""]
        finally:
            subprocess.run(["tarmac", "stop", "--all", "--yes"], env=environment, cwd=work, check=False)
            subprocess.run(["tarmac", "server", "stop"], env=environment, cwd=work, check=False)
    Path(sys.argv[1]).write_text(picture(lines[:-1]))
    return 0


def printed(command: str, work: Path, environment: dict[str, str]) -> list[str]:
    """The lines that a command prints in a terminal."""
    near, far = pty.openpty()
    with subprocess.Popen(command.split(), cwd=work, env=environment, stdin=far, stdout=far, stderr=far):
        os.close(far)
        text = b"".join(iter(lambda: _read(near), b"")).decode()
    os.close(near)
    text = re.sub(r"\x1b\[[0-9;?]*[A-HJ-lnq-z]", "", text).replace("\r\n", "\n")
    return [line.rpartition("\r")[2] for line in text.rstrip("\n").split("\n")]


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # its last writer has closed it
        return b""


def drawn(line: str) -> str:
    """A line with its colours as spans."""
    return "".join(_spans(line))


def _spans(line: str) -> Iterator[str]:
    styles: list[str] = []
    for text, codes in re.findall(r"([^\x1b]+)|\x1b\[([0-9;]*)m", line):
        if text:
            yield f'<tspan class="{" ".join(styles)}">{escape(text)}</tspan>' if styles else escape(text)
            continue
        for code in codes.split(";"):
            styles = [*styles, STYLES[code]] if code in STYLES else [] if code in ("", "0") else styles


def picture(lines: list[str]) -> str:
    """The lines as an SVG."""
    width, height = round(COLUMNS * CHARACTER + 2 * MARGIN), len(lines) * LINE + 2 * MARGIN
    rows = [
        f'<text class="s" xml:space="preserve" x="{MARGIN}" y="{MARGIN + LINE * number + 14}">{line}</text>'
        for number, line in enumerate(lines)
        if line
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
    return "\n".join(
        [
            f'{head} aria-label="A terminal session with tarmac">',
            f"<style>{CSS}</style>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#1b2330"/>',
            *rows,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
