#!/usr/bin/env bash
# Proves that each way of installing which the guide prints gives a working tarmac: no torch, no development tools, a
# home of its own, one run from nothing, a run file to begin with. Called by .ci/run.
set -euo pipefail
cd "$(dirname "$0")/.."

GUIDE=docs/using/guides/first-training.md
SCRATCH=$(mktemp -d)
export HOME=$SCRATCH TARMAC_HOME=$SCRATCH/home PATH=$SCRATCH/.local/bin:$PATH
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_CONSTRAINT=$PWD/constraints.txt UV_CONSTRAINT=$PWD/constraints.txt
unset TARMAC_URL VIRTUAL_ENV
trap finish EXIT

main() {
    printed 'pipx install .'
    printed 'uv tool install .'
    type_block 'python3 -m venv'
    try_command
    by_tool pipx pipx install .
    by_tool uv uv tool install .
}

printed() { # COMMAND: README and the guide still print it
    local page
    for page in README.md "$GUIDE"; do
        grep -qF -- "$1" "$page" || { echo "$page does not print: $1" >&2; exit 1; }
    done
}

type_block() { # BEGINNING: the commands of the guide's block that begins so, as they are printed
    sed -n "/^$1/,/^\`\`\`/p" "$GUIDE" | sed '$d' >"$SCRATCH/block"
    [ -s "$SCRATCH/block" ] || { echo "$GUIDE has no block that begins with: $1" >&2; exit 1; }
    python3() { "$(type -P python3.11 || type -P python3)" "$@"; }
    export -f python3
    bash -e "$SCRATCH/block" >/dev/null
}

by_tool() { # TOOL COMMAND...: where the machine has the tool
    local tool=$1
    shift
    if ! type -P "$tool" >/dev/null; then
        echo "no $tool here: not tried: $*"
        return
    fi
    "$@" >"$SCRATCH/said" 2>&1 || { cat "$SCRATCH/said" >&2; exit 1; }
    try_command
}

try_command() {
    local python
    python=$(sed -n '1s/^#!//p' "$(type -P tarmac)")
    if "$python" -c 'import torch' 2>/dev/null; then
        echo "torch came along: it must not" >&2
        exit 1
    fi
    cp -r examples/01-hello "$SCRATCH/hello"
    ( # away from the checkout, so that the installed package answers
        cd "$SCRATCH"
        tarmac --version
        tarmac run hello/run.yaml
        tarmac init mine
        tarmac check mine/run.yaml
        tarmac server stop
        rm -rf hello mine "$TARMAC_HOME" .venvs .local
    )
}

finish() { # never leave a server behind
    tarmac server stop >/dev/null 2>&1 || true
    rm -rf "$SCRATCH"
}

main
