"""Digests of models and rungs, which tell whether two audits measure the same."""

import hashlib
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from functools import cached_property
from types import CodeType, FunctionType
from typing import Any, cast

import numpy as np
import pyarrow as pa
import torch

from attomaton.base.artifacts import digest_arrays

# Keys of a configuration that say where a model comes from and how it is run, not what it computes.
PROVENANCE = ("_attn_implementation", "_name_or_path", "transformers_version")


def digest_value(value: Any) -> str:
    """The SHA-256 of a model or a rung: of every byte of its arrays, and of every number and text in it."""
    # Functions and classes of other packages count with their code. An object without attributes counts by
    # its type.
    digest = _Digest()
    digest.add(value)
    return digest.sha256.hexdigest()


class _Digest:
    """A SHA-256 to which values are added; an object is added once, so that circles end."""

    def __init__(self) -> None:
        self.sha256 = hashlib.sha256()
        self.visited = set[int]()  # the ``id`` of each object

    def add(self, value: Any) -> None:
        """Add the type of a value, and then its contents by their kind."""
        kind: type[Any] = value.__class__
        self.sha256.update(f"\n{kind.__qualname__} ".encode())
        if isinstance(value, torch.Tensor):
            self._add_tensor(value)
        elif isinstance(value, np.ndarray):
            self.sha256.update(digest_arrays(cast("Any", value)).encode())
        elif isinstance(value, pa.Table):
            self.add([cast("Any", column).to_numpy() for column in value.columns])
        elif isinstance(value, tuple | list):
            for entry in cast("Sequence[Any]", value):
                self.add(entry)
            self.sha256.update(b"end")  # so that [[a], b] and [[a, b]] differ
        elif isinstance(value, dict):
            self.add([*cast("dict[Any, Any]", value).items()])
        elif isinstance(value, set | frozenset):
            self.add(sorted(map(repr, cast("Any", value))))  # sets have no order of their own
        elif isinstance(value, str | bytes | int | float | complex | np.generic | torch.dtype | None):
            self.sha256.update(repr(cast("Any", value)).encode())
        elif id(value) in self.visited:
            return
        elif isinstance(value, FunctionType):
            self.add([value.__code__, value.__defaults__, value.__kwdefaults__])
        elif isinstance(value, CodeType):
            self.add([value.co_code, value.co_names, value.co_consts])
        else:
            self.visited.add(id(value))
            self._add_object(value, kind)

    # The axes in the order in which the tensor is stored, so that ``contiguous`` makes no copy.
    def _add_tensor(self, tensor: torch.Tensor) -> None:
        whole = tensor.detach().cpu()
        order = sorted(range(whole.ndim), key=lambda axis: -whole.stride(axis))
        self.sha256.update(f"{whole.dtype}{tuple(whole.shape)}{order}".encode())
        self.sha256.update(whole.permute(order).contiguous().reshape(-1).view(torch.uint8).numpy().data)

    # What the object computes with: weights, fields or attributes, without what it has cached.
    def _add_object(self, value: Any, kind: type[Any]) -> None:
        if isinstance(value, torch.nn.Module):
            config: Any = getattr(value, "config", None)
            settings = config.to_dict() if hasattr(config, "to_dict") else {"": config}
            self.add([repr(value), value.state_dict()])
            self.add([(key, settings[key]) for key in sorted(settings) if key not in PROVENANCE])
        elif is_dataclass(value):
            self.add([getattr(value, item.name) for item in fields(value) if item.compare])
        else:
            attributes: dict[str, Any] = getattr(value, "__dict__", {})
            cached = {name for name in attributes if isinstance(getattr(kind, name, None), cached_property)}
            self.add([(name, entry) for name, entry in sorted(attributes.items()) if name not in cached])
        if not kind.__module__.startswith(("attomaton.", "torch.")):
            self.add([entry for entry in vars(kind).values() if isinstance(entry, FunctionType)])
