"""Finished results of an experiment on disk, so that an interrupted experiment can be resumed."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attomaton.base.artifacts.files import explained
from attomaton.base.artifacts.manifests import read_sealed, write_sealed


@dataclass(frozen=True, eq=False)
class FinishedResults:
    """Storage of finished results.

    Attributes
    ----------
    folder : Path, optional
        The folder given as ``--work``. None means that nothing is stored.

    Examples
    --------
    >>> import tempfile
    >>> calls = []
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for _ in range(2):
    ...         results = FinishedResults(Path(folder, "results"))
    ...         numbers = results.take("seed 0", {"steps": 3}, lambda: calls.append(1) or {"loss": [1.0]})
    >>> numbers, len(calls)
    ({'loss': [1.0]}, 1)
    """

    folder: Path | None

    def take(self, name: str, settings: dict[str, Any], make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The numbers of a result: read if it was made with these settings before, else made and written.

        Numbers are plain finite JSON values.
        """
        if self.folder is None:
            return make()
        path = self.folder / f"{name.replace(' ', '-')}.json"
        stored = read_sealed(path)
        if stored is not None and stored.get("settings") == settings:
            return stored["numbers"]
        numbers = make()
        with explained(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_sealed(path, {"settings": settings, "numbers": numbers})
        return numbers
