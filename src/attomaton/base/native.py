"""Imported only where the kernels are missing: Python prefers the extension of this name."""

from attomaton.base.errors import MissingExtra

raise MissingExtra(
    "attomaton's kernels are not built for this Python: pip install --force-reinstall attomaton, "
    "or in a checkout pip install -e ."
)
