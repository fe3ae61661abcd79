"""The systems that execute attempts: one package each, strangers to one another."""
