"""The engine of hosts on which tarmac's own scheduler places attempts; `local` and `ray` supply the hosts."""
