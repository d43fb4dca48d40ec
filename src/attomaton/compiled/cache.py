"""Compiled code on disk, checked before it is run.

Numba's own cache believes its files: one that was cut short ends in a traceback, one with a flipped bit runs
as it is, and its index may name a file that belongs to an older source. Here each file begins with a digest
of what it holds and of what it is for. Whatever does not fit is compiled anew, and replaced where that can be
done. The files hold pickles, so a folder that someone else can write is not used at all.
"""

import hashlib
import os
import pickle
import stat
import uuid
from importlib import import_module
from pathlib import Path
from typing import Any

ENDING = ".attomaton.nbc"
SIZE = hashlib.sha256().digest_size
_caching: Any = import_module("numba.core.caching")
_serialise: Any = import_module("numba.core.serialize").dumps


class CheckedCache:
    """The cache of one function, as numba's dispatcher asks it; it gives only what it can vouch for."""

    def __init__(self, function: Any) -> None:
        inner = _caching.FunctionCache(function)
        self.cache_path: str = inner.cache_path
        inner._cache_file = CodeFiles(
            Path(self.cache_path), inner._impl.filename_base, inner._impl.locator.get_source_stamp()
        )
        self._inner = inner
        if not is_private(Path(self.cache_path), Path(function.__code__.co_filename)):
            inner.disable()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled code for these types; None if there is none that can be used."""
        try:
            return self._inner.load_overload(sig, target_context)
        except Exception:  # whatever a damaged file leads to: it is compiled anew
            return None

    def holds(self, sig: Any, target_context: Any) -> bool:
        """Whether there is a file for these types; whether it fits is found out when it is read."""
        try:
            return self._inner._cache_file.path(
                self._inner._index_key(sig, target_context.codegen())
            ).is_file()
        except (OSError, AttributeError):
            return False

    @property
    def keeps(self) -> bool:
        """Whether code of this function is written to disk at all."""
        return bool(self._inner._enabled)

    def holds_any(self) -> bool:
        """Whether there is a file of this function at all."""
        return self._inner._cache_file.holds_any()

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep compiled code for the next program, if that is possible."""
        try:
            self._inner.save_overload(sig, data)
        except OSError:  # no place, or no right to write: the next program compiles again
            self._inner.disable()

    def flush(self) -> None:
        """Forget everything about the function."""
        self._inner.flush()


class CodeFiles:
    """One file for each signature of a function, with a digest at its head."""

    def __init__(self, folder: Path, base: str, stamp: object) -> None:
        self.folder, self.base, self.stamp = folder, base, stamp

    def path(self, key: tuple[Any, ...]) -> Path:
        """Where the code for these types and this processor is; an older source has the same place."""
        name = hashlib.sha256(repr(key[:2]).encode()).hexdigest()[:16]
        return self.folder / f"{self.base}.{name}{ENDING}"

    def holds_any(self) -> bool:
        """Whether there is a file for any types."""
        return any(self.folder.glob(f"{self.base}.*{ENDING}"))

    def load(self, key: tuple[Any, ...]) -> Any:
        """What was saved for this key, if the file says so."""
        try:
            content = self.path(key).read_bytes()
        except OSError:
            return None
        digest, payload = content[:SIZE], content[SIZE:]
        return pickle.loads(payload) if digest == self._digest(key, payload) else None  # noqa: S301

    def save(self, key: tuple[Any, ...], data: Any) -> None:
        """Write a file for this key, whole or not at all."""
        payload: bytes = _serialise(data)
        path = self.path(key)
        draft = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}")
        try:
            draft.write_bytes(self._digest(key, payload) + payload)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)

    def flush(self) -> None:
        """Forget everything about the function."""
        for path in self.folder.glob(f"{self.base}.*{ENDING}"):
            path.unlink(missing_ok=True)

    def _digest(self, key: tuple[Any, ...], payload: bytes) -> bytes:
        return hashlib.sha256(repr((self.stamp, key)).encode() + payload).digest()


def is_private(folder: Path, source: Path) -> bool:
    """Whether only this user, root, or whoever owns the source itself can write into a folder.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     before = is_private(Path(folder), Path(folder))
    ...     Path(folder).chmod(0o777)
    ...     before, is_private(Path(folder), Path(folder))
    (True, False)
    """
    if not hasattr(os, "geteuid"):
        return True
    try:
        status = folder.stat()
        owners = {0, os.geteuid(), source.stat().st_uid}
    except OSError:
        return not folder.exists()  # then it is made, by this user
    return status.st_uid in owners and not status.st_mode & stat.S_IWOTH
