"""minGPT models in one JSON file, as llm-viz has them: a configuration, and tensors in base64."""

import base64
import binascii
import math
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from attomaton.base.errors import UnreadableModel
from attomaton.corpora.budgets import shown
from attomaton.corpora.regular import open_regular
from attomaton.heads.reading.configs import parse_settings
from attomaton.heads.reading.families import build_model
from attomaton.heads.reading.files import named
from attomaton.heads.reading.headers import parse_json
from attomaton.heads.transformer import Transformer

MOST_BYTES = 1 << 28
"""Bytes of such a file: 256 MB. The only one in use has half a megabyte."""

SIZES = {"n_layer": "n_layer", "n_head": "n_head", "n_embd": "n_embd", "vocab_size": "vocab_size"}


def read_mingpt(path: str | PathLike[str], *, dtype: torch.dtype = torch.float32) -> Transformer:
    """The model of a file; its layers are those of GPT-2, with maps stored the other way round."""
    place = Path(path)
    with named(place, "is no minGPT model"), open_regular(place) as stream:
        text = stream.read(MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            raise UnreadableModel(f"it has more than {MOST_BYTES:,} bytes")
        whole = parse_json(text, "it")
        found = cast("dict[str, Any]", whole) if isinstance(whole, dict) else {}
        given = found.pop("config", None)
        config = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
        said = {ours: config.get(theirs) for ours, theirs in SIZES.items()}
        said |= {"n_positions": config.get("block_size"), "tie_word_embeddings": False, "model_type": "gpt2"}
        settings = parse_settings(said)
        tensors = {name: _parse_tensor(name, one) for name, one in found.items()}
        return build_model(settings, _turned(tensors), str(place), dtype)


def _turned(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Maps as GPT-2 stores them, (n_in, n_out); embeddings and the decoder are stored alike in both."""
    inner = {name for name in tensors if ".h." in name and name.endswith(".weight")}
    return {name: one.T if name in inner and one.ndim == 2 else one for name, one in tensors.items()}


def _parse_tensor(name: str, given: Any) -> Tensor:
    entry = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    shape, data = entry.get("shape"), entry.get("data")
    sizes: list[Any] = cast("list[Any]", shape) if isinstance(shape, list) else [None]
    if not isinstance(data, str) or entry.get("dtype") != "torch.float32":
        raise UnreadableModel(f"{shown(name)!r} is no tensor of torch.float32")
    if len(sizes) > 4 or not all(type(one) is int and 0 <= one < 1 << 31 for one in sizes):
        raise UnreadableModel(f"the shape of {shown(name)!r} is not a list of sizes")
    try:
        numbers = bytearray(base64.b64decode(data, validate=True))
    except (ValueError, binascii.Error) as error:
        raise UnreadableModel(f"the numbers of {shown(name)!r} are not in base64") from error
    if len(numbers) != 4 * math.prod(sizes):
        raise UnreadableModel(f"{shown(name)!r} has {len(numbers):,} bytes, which are not its shape")
    flat = torch.frombuffer(numbers, dtype=torch.float32) if numbers else torch.zeros(0)
    return flat.reshape(sizes)
