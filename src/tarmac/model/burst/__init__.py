"""Machines rented for single runs: shapes, rentals, and the port of providers."""
