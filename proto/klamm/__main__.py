"""`python -m klamm` is the command `klamm`; child processes are started like this."""

from klamm.entry import main

main()
