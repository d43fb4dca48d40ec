"""An adversary that stays: it looks for inputs on which the product breaks one of its promises.

Each module holds one target: what draws its cases, a reference that shares no code with the product, and the
attack that holds one against the other. ``python -m tests.adversary`` runs them and prints a table.
"""
