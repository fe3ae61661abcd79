"""The systems that execute attempts: one package for each, none imports another."""
