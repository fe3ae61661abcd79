"""A setup step: writes what the command will read."""

import argparse
from pathlib import Path

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--words", type=int, default=3)
wanted = parser.parse_args().words

lines = [f"word {number}" for number in range(1, wanted + 1)]
Path("prepared/words").write_text("\n".join(lines) + "\n")
