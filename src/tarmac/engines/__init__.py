"""The systems that execute attempts: one package each, none imports another."""
