"""Store arrays in a safetensors file with a digest of its content, and compute digests of arrays."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from attomaton.base.artifacts.files import explained, write_file
from attomaton.base.artifacts.targets import write_target
from attomaton.base.errors import CorruptRun

_open_safetensors: Any = safetensors.safe_open
DIGEST = "sha256"  # the key of the digest in the metadata of a file
RESTORE_ARRAYS = "delete it, or restore it from a copy"


def digest_arrays(*arrays: NDArray[Any]) -> str:
    """The SHA-256 of arrays with their types and shapes, in hexadecimal."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], about: Mapping[str, str]) -> dict[str, Any]:
    """Write arrays and ``about`` to a file in a folder of attomaton; return its manifest entry."""
    blob = _pack_arrays(arrays, about)
    return write_file(path, lambda draft: draft.write_bytes(blob))


def save_arrays(path: str | Path, arrays: Mapping[str, NDArray[Any]], about: Mapping[str, str]) -> Path:
    """Write arrays to a file that a user names; only a file of :func:`write_arrays` is replaced."""
    blob = _pack_arrays(arrays, about)
    with explained(Path(path)):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_target(path, lambda draft: draft.write_bytes(blob), is_ours=_is_ours)
    return Path(path)


# The bytes of a file, with its metadata sorted by name: the library writes them in arbitrary order.
def _pack_arrays(arrays: Mapping[str, NDArray[Any]], about: Mapping[str, str]) -> bytes:
    packed = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    blob = safetensors.numpy.save(packed, {**about, DIGEST: _digest_all(packed, about)})
    # a safetensors file: 8 bytes with the length of the header, a header of JSON, padded to 8 bytes, the data
    size = int.from_bytes(blob[:8], "little")
    header: dict[str, Any] = json.loads(blob[8 : 8 + size])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + blob[8 + size :]


def _is_ours(path: Path) -> bool:  # "holds" is in the metadata of every file that attomaton writes
    try:
        with _open_safetensors(str(path), "numpy") as file:
            return {"holds", DIGEST} <= dict(file.metadata() or {}).keys()
    except (OSError, TypeError, ValueError, safetensors.SafetensorError):
        return False


def read_arrays(path: str | Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Read the arrays and ``about`` of a file that :func:`write_arrays` wrote, if it is intact."""
    try:
        with _open_safetensors(str(path), "numpy") as file:
            about: dict[str, str] = dict(file.metadata() or {})
            arrays: dict[str, NDArray[Any]] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  no mapping
    except FileNotFoundError as error:
        raise CorruptRun(f"{path} does not exist; give the path of a saved file") from error
    except (OSError, TypeError, ValueError, safetensors.SafetensorError) as error:
        raise CorruptRun(f"{path} is truncated or altered ({error}); {RESTORE_ARRAYS}") from error
    if about.pop(DIGEST, None) != _digest_all(arrays, about):
        raise CorruptRun(f"{path} was altered after it was written; {RESTORE_ARRAYS}")
    return arrays, about


# The digest of names, arrays and metadata, in an order that does not depend on the mappings.
def _digest_all(arrays: Mapping[str, NDArray[Any]], about: Mapping[str, str]) -> str:
    names = sorted(arrays)
    header = json.dumps([names, sorted(about.items())])
    return hashlib.sha256(f"{header}{digest_arrays(*map(arrays.__getitem__, names))}".encode()).hexdigest()
