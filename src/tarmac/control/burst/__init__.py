"""Rents machines for single runs, and gives them back."""
