"""The commands: thin, over `client`."""

import gc

# What a short command makes it needs to its end; looking for garbage took a fifteenth of its time.
gc.set_threshold(50_000)
