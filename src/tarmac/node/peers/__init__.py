"""A remote shell between the nodes of one attempt, for programs that start processes by `ssh` (mpirun).

Horovod needs no remote shell, but a server for the addresses of its processes: `rendezvous`.

Run by path: `python3 .../tarmac/node/peers VERB`. The worker of every node is this program. On the first node
it waits until the others have connected to it, at MASTER_ADDR:MASTER_PORT, and starts the program there;
`remote` asks a node to run a command, and `rank` starts each process of the program. No sshd, no keys. A
node's name is its rank, `rank1`: programs parse names of hosts, and may resolve them.
"""
