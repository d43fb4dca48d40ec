"""How many trials a campaign makes: few in the gate, so many times more where ATTOMATON_FAULTS says so."""

import os


def trials(few):
    """The number for the gate, times what the environment asks for."""
    return int(few * float(os.environ.get("ATTOMATON_FAULTS", "1")))
