"""tarmac's own run file: YAML, described for users in docs/run-file.md. Reached through `spec.dialects`."""
