"""Finished layers of an audit in a folder, so that an audit that was stopped goes on where it was."""

import hashlib
import json
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property, partial
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, cast

import numpy as np
import pyarrow as pa
import torch

from attomaton.base.artifacts import digest_arrays, explained, write_file
from attomaton.base.artifacts.ownership import locked
from attomaton.base.errors import MismatchedParts, UnreadableSource
from attomaton.base.tables import write_parquet
from attomaton.heads.audit.saved import read_saved, restore, store
from attomaton.heads.model import HeadModel

IDENTITY = "audit.json"
"""The file that says which audit the layers belong to."""

LAYER = "layer-{:04}.parquet"
"""The file of a layer."""

AUDIT = b"attomaton audit"
"""The metadata key in the file of a layer: the SHA-256 of ``IDENTITY``."""

DIGITS = re.compile(r"\d+")

PROVENANCE = ("_attn_implementation", "_name_or_path", "transformers_version")
"""Keys of a configuration that say where a model comes from and how it is run, not what it computes."""


def numbered(folder: Path, name: str) -> dict[int, Path]:
    """What a folder has under a name with a number, by that number; under other names are files of others."""
    entries: dict[int, Path] = {}
    for entry in folder.iterdir() if folder.is_dir() else ():
        number = DIGITS.search(entry.name)
        if number is not None and entry.name == name.format(int(number[0])):
            entries[int(number[0])] = entry
    return dict(sorted(entries.items()))


@contextmanager
def alone_in(folder: str | PathLike[str]) -> Generator[None]:
    """Refuse a folder that another process or thread uses."""
    path = Path(folder)
    with ExitStack() as stack:
        with explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(path, path.absolute().parent))
        yield


@dataclass(frozen=True)
class FinishedLayers:
    """A folder with a file for each finished layer."""

    folder: Path

    @classmethod
    @contextmanager
    def open(
        cls,
        folder: str | PathLike[str],
        model: HeadModel,
        documents: Sequence[Any],
        settings: Mapping[str, Any],
    ) -> "Generator[FinishedLayers]":
        """The folder of this audit, for this audit alone; one with layers of another audit is refused."""
        path = Path(folder)
        if path.exists() and not path.is_dir():
            raise UnreadableSource(f"{path} is a file; give a folder for finished layers")
        identity = {
            "version": version("attomaton"),
            "shape": str(model.shape),
            "weights": digest_value(model),
            "documents": digest_arrays(*(np.asarray(ids, np.int64) for ids in documents)),
            **settings,
        }
        with alone_in(path):
            cls._claim(path, identity)
            yield cls(path)

    @staticmethod
    def _claim(folder: Path, identity: Mapping[str, Any]) -> None:
        """Write which audit the folder belongs to, or raise if it belongs to another."""
        text = json.dumps(identity, sort_keys=True, indent=1)
        new: Any = json.loads(text)
        try:
            old: Any = json.loads((folder / IDENTITY).read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            if numbered(folder, LAYER):
                raise MismatchedParts(
                    f"{folder} holds layers of an audit, but not the file {IDENTITY} that says which audit "
                    "they belong to; give another folder, or delete this one to begin anew"
                ) from error
            with explained(folder):
                folder.mkdir(exist_ok=True)
                write_file(folder / IDENTITY, lambda draft: draft.write_text(text, encoding="utf-8"))
            return
        except (OSError, ValueError, RecursionError) as error:
            raise UnreadableSource(f"{folder / IDENTITY} cannot be read; delete {folder}") from error
        if old != new:
            entries = cast("dict[str, Any]", old) if isinstance(old, dict) else {}
            different = [name for name in new if entries.get(name) != new[name]]
            raise MismatchedParts(
                f"{folder} holds finished layers of another audit (different: {', '.join(different)}); "
                "continue with the same model, corpus and options, or delete that folder to begin anew"
            )

    def read(self) -> dict[int, dict[str, Any]]:
        """The fields of the audits of finished layers, by layer.

        A file that is damaged, misnamed or copied from another audit is left out.
        """
        layers: dict[int, dict[str, Any]] = {}
        for layer, file in numbered(self.folder, LAYER).items():
            with suppress(UnreadableSource, OSError):
                if (read_saved(file)[0].schema.metadata or {}).get(AUDIT) == self._identify():
                    layers[layer] = restore(file)
        return {
            layer: audit
            for layer, audit in layers.items()
            if {head.layer for head in audit["heads"]} == {layer}
        }

    def write(self, layer: int, audit: Any) -> None:
        """Keep the audit of a finished layer."""
        with explained(self.folder, resumable=True):
            table: Any = store(audit)
            table = table.replace_schema_metadata({**table.schema.metadata, AUDIT: self._identify()})
            write_file(self.folder / LAYER.format(layer), partial(write_parquet, table))

    def _identify(self) -> bytes:
        """Which audit this is."""
        return hashlib.sha256((self.folder / IDENTITY).read_bytes()).hexdigest().encode()

    def remove(self) -> None:
        """Remove the folder with all that was written there; files of others stay."""
        for file in (*numbered(self.folder, LAYER).values(), self.folder / IDENTITY):
            if file.is_file():
                file.unlink(missing_ok=True)
        with suppress(OSError):  # a file of somebody else is in it
            self.folder.rmdir()


def digest_value(value: Any) -> str:
    """The SHA-256 of a model or a rung: of every byte of its arrays, and of every number and text in it.

    Classes from elsewhere and functions count with their code, PyTorch modules with their weights and printed
    form. What has no attributes, such as an iterator, is told apart by its type only.
    """
    digest, visited = hashlib.sha256(), set[int]()

    def add(value: Any) -> None:
        kind: type[Any] = value.__class__
        digest.update(f"\n{kind.__qualname__} ".encode())
        if isinstance(value, torch.Tensor):
            whole = value.detach().cpu()
            order = sorted(range(whole.ndim), key=lambda axis: -whole.stride(axis))  # as stored: no copy
            digest.update(f"{whole.dtype}{tuple(whole.shape)}{order}".encode())
            digest.update(whole.permute(order).contiguous().reshape(-1).view(torch.uint8).numpy().data)
        elif isinstance(value, np.ndarray):
            digest.update(digest_arrays(cast("Any", value)).encode())
        elif isinstance(value, pa.Table):
            add([cast("Any", column).to_numpy() for column in value.columns])
        elif isinstance(value, tuple | list):
            for entry in cast("Sequence[Any]", value):
                add(entry)
            digest.update(b"end")
        elif isinstance(value, dict):
            add([*cast("dict[Any, Any]", value).items()])
        elif isinstance(value, set | frozenset):
            add(sorted(map(repr, cast("Any", value))))
        elif isinstance(value, str | bytes | int | float | complex | np.generic | torch.dtype | None):
            digest.update(repr(cast("Any", value)).encode())
        elif id(value) in visited:
            return
        elif isinstance(value, FunctionType):
            add([value.__code__, value.__defaults__, value.__kwdefaults__])
        elif isinstance(value, CodeType):
            add([value.co_code, value.co_names, value.co_consts])
        else:
            visited.add(id(value))
            if isinstance(value, torch.nn.Module):
                config: Any = getattr(value, "config", None)
                settings = config.to_dict() if hasattr(config, "to_dict") else {"": config}
                add([repr(value), value.state_dict()])
                add([(key, settings[key]) for key in sorted(settings) if key not in PROVENANCE])
            elif is_dataclass(value):
                add([getattr(value, item.name) for item in fields(value) if item.compare])
            else:
                attributes: list[Any] = sorted(getattr(value, "__dict__", {}).items())
                cached = {name for name, _ in attributes if _is_cached(kind, name)}
                add([(name, entry) for name, entry in attributes if name not in cached])
            if not kind.__module__.startswith(("attomaton.", "torch.")):
                add([entry for entry in vars(kind).values() if isinstance(entry, FunctionType)])

    add(value)
    return digest.hexdigest()


def _is_cached(kind: type, name: str) -> bool:
    """Whether an attribute was computed from others when it was first read."""
    return isinstance(getattr(kind, name, None), cached_property)
