"""`python -m lrmc`: the command line."""

from .cli import main

main()
