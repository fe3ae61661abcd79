"""Stands for `apptainer exec` in tests: it executes, by `unshare`, and refuses what it does not know.

apptainer --silent exec --containall ... ROOT COMMAND...
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

_PREFIX = "APPTAINERENV_"
_ALONE = {"--containall", "--no-home", "--no-privs", "--writable-tmpfs", "--nv"}
_SCRIPT = r"""
set -e
PATH_INSIDE=$PATH PATH=/usr/sbin:/usr/bin:/sbin:/bin
root=$1 pwd=$2; shift 2
top=$(mktemp -d)
mount -t tmpfs tarmac "$top"
mkdir "$top/upper" "$top/work" "$top/merged"
mount -t overlay -o "userxattr,lowerdir=$root,upperdir=$top/upper,workdir=$top/work" overlay "$top/merged"
cd "$top/merged"
mkdir -p proc dev tmp etc
mount --rbind /proc proc
for name in null zero urandom; do : > "dev/$name"; mount --bind "/dev/$name" "dev/$name"; done
mkdir -p dev/shm
mount -t tmpfs -o mode=1777 tarmac dev/shm
while [ "$1" != -- ]; do
    source=${1%%:*} rest=${1#*:}; target=${rest%%:*} how=${rest#"$target"}
    if [ -d "$source" ]; then mkdir -p ".$target"; else mkdir -p "$(dirname ".$target")"; : > ".$target"; fi
    mount --bind "$source" ".$target"
    [ "$how" != :ro ] || mount -o remount,bind,ro ".$target"
    shift
done
shift
PATH=$PATH_INSIDE exec /usr/sbin/chroot . /bin/sh -c 'cd "$0"; exec "$@"' "$pwd" "$@"
"""


def main(argv: list[str]) -> None:
    """Take the options apart, and become the command."""
    if argv[:2] != ["--silent", "exec"]:
        sys.exit(f"FATAL: unknown command {argv}")
    binds, directory, words = [], "/", argv[2:]
    while words[0].startswith("--"):
        option = words.pop(0)
        if option == "--bind":
            binds.append(words.pop(0))
        elif option == "--pwd":
            directory = words.pop(0)
        elif option not in _ALONE:
            sys.exit(f"FATAL: unknown flag: {option}")
    root, command = words[0], words[1:]
    if Path(root).is_file():  # made by `small_bases.write_sif`
        root = Path(root).read_text(encoding="utf-8").splitlines()[1]
    given = {
        name.removeprefix(_PREFIX): text for name, text in os.environ.items() if name.startswith(_PREFIX)
    }
    unshare = shutil.which("unshare") or "unshare"
    shell = ["/bin/bash", "-c", _SCRIPT, "apptainer", root, directory, *binds, "--", *command]
    os.execve(unshare, [unshare, "--user", "--map-root-user", "--mount", *shell], given)


if __name__ == "__main__":
    main(sys.argv[1:])
