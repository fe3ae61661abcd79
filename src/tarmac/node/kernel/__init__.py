"""Access to the kernel: processes, namespaces, mounts, control groups, FIFOs, inotify."""
