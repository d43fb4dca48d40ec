"""Finished parts of an experiment on disk, so that an interrupted experiment can be resumed."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attomaton.base.artifacts.files import explained
from attomaton.base.artifacts.manifests import read_sealed, write_sealed


@dataclass(frozen=True, eq=False)
class Parts:
    """Storage of finished parts.

    Attributes
    ----------
    folder : Path, optional
        The folder given as ``--work``. None means that nothing is stored.

    Examples
    --------
    >>> import tempfile
    >>> made = []
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for _ in range(2):
    ...         parts = Parts(Path(folder, "parts"))
    ...         numbers = parts.take("seed 0", {"steps": 3}, lambda: made.append(1) or {"loss": [1.0, 0.5]})
    >>> numbers, len(made)
    ({'loss': [1.0, 0.5]}, 1)
    """

    folder: Path | None

    def take(self, name: str, asked: dict[str, Any], make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The numbers of a part: read if it was made with these settings before, else made and written.

        Numbers are plain finite JSON values.
        """
        if self.folder is None:
            return make()
        path = self.folder / f"{name.replace(' ', '-')}.json"
        found = read_sealed(path)
        if found is not None and found.get("asked") == asked:
            return found["numbers"]
        numbers = make()
        with explained(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_sealed(path, {"asked": asked, "numbers": numbers})
        return numbers
