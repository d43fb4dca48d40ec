"""FinishedLayers layers of an audit in a folder, so that an audit that was stopped goes on where it was."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from attomaton.base.artifacts import digest_arrays, explained, write_file
from attomaton.base.errors import MismatchedParts, UnreadableSource
from attomaton.base.tables import write_parquet
from attomaton.heads.audit.saved import restore, store
from attomaton.heads.model import HeadModel

IDENTITY = "audit.json"
"""The file that says which audit the layers belong to."""

LAYERS = "layer-*.parquet"
"""The files of the layers."""

SAMPLED = 1024
"""Entries of each weight that a fingerprint reads, evenly spaced."""


@dataclass(frozen=True)
class FinishedLayers:
    """A folder with a file for each finished layer."""

    folder: Path

    @classmethod
    def open(
        cls,
        folder: str | PathLike[str],
        model: HeadModel,
        documents: Sequence[Any],
        settings: Mapping[str, Any],
    ) -> "FinishedLayers":
        """The folder of this audit; one with layers of another audit is refused."""
        place = Path(folder)
        if place.exists() and not place.is_dir():
            raise UnreadableSource(f"{place} is a file; give a folder for finished layers")
        identity = {
            "version": version("attomaton"),
            "weights": fingerprint(model),
            "documents": digest_arrays(*(np.asarray(ids, np.int64) for ids in documents)),
            **settings,
        }
        text = json.dumps(identity, sort_keys=True, indent=1)
        new: Any = json.loads(text)
        try:
            old: Any = json.loads((place / IDENTITY).read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            if any(place.glob(LAYERS)):
                raise MismatchedParts(
                    f"{place} holds layers of an audit, but not the file {IDENTITY} that says of which; give "
                    "another folder, or delete that one to begin anew"
                ) from error
            with explained(place):
                place.mkdir(parents=True, exist_ok=True)
                write_file(place / IDENTITY, lambda draft: draft.write_text(text, encoding="utf-8"))
            return cls(place)
        except (OSError, ValueError) as error:
            raise UnreadableSource(f"{place / IDENTITY} cannot be read; delete {place}") from error
        if old != new:
            known = cast("dict[str, Any]", old) if isinstance(old, dict) else {}
            other = [name for name in new if known.get(name) != new[name]]
            raise MismatchedParts(
                f"{place} holds finished layers of another audit (different: {', '.join(other)}); go on with "
                "the same model, corpus and options, or delete that folder to begin anew"
            )
        return cls(place)

    def read(self) -> dict[int, dict[str, Any]]:
        """The fields of the audits of finished layers, by layer; a damaged file counts as unfinished."""
        parts: dict[int, dict[str, Any]] = {}
        for file in sorted(self.folder.glob(LAYERS)):
            with suppress(UnreadableSource):
                parts[int(file.stem.removeprefix("layer-"))] = restore(file)
        return parts

    def write(self, layer: int, audit: Any) -> None:
        """Keep the audit of a finished layer."""
        with explained(self.folder, resumable=True):
            write_file(self.folder / f"layer-{layer:04}.parquet", partial(write_parquet, store(audit)))

    def remove(self) -> None:
        """Remove the folder with all that was written there; files of others stay."""
        for file in (*self.folder.glob(LAYERS), self.folder / IDENTITY):
            file.unlink(missing_ok=True)
        with suppress(OSError):  # a file of somebody else is in it
            self.folder.rmdir()


def digest_rung(rung: Any) -> str:
    """The SHA-256 of the arrays of a rung, such as its table: rungs of the same name may differ in them."""
    parts: Any = getattr(rung, "__dict__", {}).values()
    return digest_arrays(*(cast("Any", one) for one in parts if isinstance(one, np.ndarray)))


def fingerprint(model: HeadModel) -> str:
    """The SHA-256 of a model's name, shape, and some entries of each of its weights."""
    digest = hashlib.sha256(f"{model.name}{model.shape}".encode())

    def add(part: Any) -> None:
        if isinstance(part, torch.Tensor | np.ndarray):
            whole = torch.as_tensor(cast("Any", part)).detach()
            flat = whole.reshape(-1)
            some = flat[:: max(len(flat) // SAMPLED, 1)].double().cpu().numpy()
            digest.update(f"{tuple(whole.shape)}".encode() + some.tobytes())
        elif isinstance(part, tuple):
            for one in cast("tuple[Any, ...]", part):
                add(one)
        elif is_dataclass(part) and not isinstance(part, type):
            for one in fields(part):
                add(getattr(part, one.name))

    add(model)
    return digest.hexdigest()
