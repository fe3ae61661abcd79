"""Observes workers from outside: output, checkpoints, and whether those are complete."""
