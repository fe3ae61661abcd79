"""The native dialect, and the parts of every reader. `systems.registry` joins those of foreign systems."""
