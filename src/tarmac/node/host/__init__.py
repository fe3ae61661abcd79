"""Operations on the host of a cluster: the machine that runs its commands and sees its directory."""
