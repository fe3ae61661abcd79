"""A remote shell between the nodes of one attempt, for programs that start processes by `ssh` (mpirun).

Horovod needs no remote shell, but a place where its processes meet: `rendezvous`.

Run by path: `python3 .../tarmac/node/peers VERB`. The worker of every node is this program. On the first node
it waits until the others have connected to it, at MASTER_ADDR:MASTER_PORT, and starts the program there;
`remote` asks a node to run a command, and `rank` is what each process of the program begins with. No sshd, no
keys. A node is called by its rank, `rank1`: programs take names of hosts apart, and may look them up.
"""
