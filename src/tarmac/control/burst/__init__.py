"""Machines rented for single runs: decisions, the loop that carries them out, and its commands."""
