"""The dialect of MosaicML's MCLI: its run YAML, all public versions. Reached through `systems.registry`."""
