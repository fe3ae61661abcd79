export BY_THE_HOOK=yes
