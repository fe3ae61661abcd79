#!/usr/bin/env bash
# Proves that `pip install .` gives a working tarmac: a fresh environment, no torch, no development tools, a home of
# its own, one run from nothing, a run file to begin with. Called by .ci/run.
set -euo pipefail
cd "$(dirname "$0")/.."

SCRATCH=$(mktemp -d)
export TARMAC_HOME=$SCRATCH/home
unset TARMAC_URL
trap finish EXIT

main() {
    "$(command -v python3.11 || command -v python3)" -m venv "$SCRATCH/venv"
    PATH=$SCRATCH/venv/bin:$PATH
    pip install --quiet --disable-pip-version-check --constraint constraints.txt .
    if python -c 'import torch' 2>/dev/null; then
        echo "torch came along: it must not" >&2
        exit 1
    fi
    cp -r examples/01-hello "$SCRATCH/hello"
    cd "$SCRATCH" # away from the checkout, so that the installed package answers
    tarmac --version
    tarmac run hello/run.yaml
    tarmac init mine
    tarmac check mine/run.yaml
}

finish() { # never leave a server behind
    "$SCRATCH/venv/bin/tarmac" server stop >/dev/null 2>&1 || true
    rm -rf "$SCRATCH"
}

main
