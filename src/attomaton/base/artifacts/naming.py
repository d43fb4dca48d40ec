"""Names beside a target, which fit the file system whatever the target is called, and names for sentences."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

LONGEST = 255
"""Bytes of a name."""


def sibling(name: str, ending: str) -> str:
    """The name with an ending; one that would be too long is cut, with a digest of the whole."""
    raw, tail = os.fsencode(name), os.fsencode(ending)
    if len(raw) + len(tail) > LONGEST:
        digest = hashlib.sha256(raw).hexdigest()[:16].encode()
        raw = raw[: LONGEST - len(tail) - len(digest)] + digest
    return os.fsdecode(raw + tail)


def shown(place: Path) -> str:
    """A path as a sentence names it: from the working directory, if it is in there."""
    try:
        here = Path.cwd()
    except FileNotFoundError:  # it was removed
        return str(place)
    return str(place.relative_to(here)) if place != here and here in place.parents else str(place)


def few(names: Sequence[str]) -> str:
    """The first three names, and how many more there are."""
    first = ", ".join(map(repr, names[:3]))
    return first if len(names) <= 3 else f"{first} and {len(names) - 3:,} more"
