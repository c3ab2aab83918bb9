"""`python -m lrmc.cli`."""

from . import main

main()
