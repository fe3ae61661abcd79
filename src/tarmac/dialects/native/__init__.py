"""tarmac's own run file: YAML, described in docs/run-file.md. Reached through `dialects.registry`."""
