"""The commands: thin, over `client`."""

import gc

gc.set_threshold(
    50_000
)  # what a short command makes it needs to its end; looking for garbage took a fifteenth
