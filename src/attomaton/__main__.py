"""``python -m attomaton``: the command line."""

from attomaton.cli import main

main()
