"""Starting and supervising the processes of one attempt."""
