"""A stage of work that runs part by part of the queries, wherever an engine runs it."""

from pathlib import Path
from typing import Any, Protocol


class Stage(Protocol):
    """What an engine runs on each part of the queries; it can be sent to other machines.

    Examples
    --------
    >>> class Count:
    ...     name, title, fingerprint = "count", "counting", "0" * 64
    ...     def __call__(self, folder, number, attempt=""):
    ...         return {"files": {}, "number": number}
    >>> Count()(Path("work"), 3)["number"]
    3
    """

    @property
    def name(self) -> str:
        """Begins the names of its records, and names its folder."""
        ...

    @property
    def title(self) -> str:
        """What users are told that is done."""
        ...

    @property
    def fingerprint(self) -> str:
        """A digest of all that its answer depends on."""
        ...

    def __call__(self, folder: Path, number: int, /, attempt: str = "") -> dict[str, Any]:
        """Work on part ``number`` and write files into ``folder``; plain values, and ``files`` by name.

        ``attempt`` is in the names of the files where several may work on one part.
        """
        ...
