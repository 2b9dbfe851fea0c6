"""`python -m ktae`: the command line."""

from ktae.cli import main

main()
