"""What the kernel is asked for: processes, namespaces, mounts, control groups, FIFOs, inotify."""
