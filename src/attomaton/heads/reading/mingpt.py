"""minGPT models in a JSON file: the configuration, and each tensor as base64."""

import base64
import binascii
import math
from os import PathLike
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from attomaton.base.errors import UnreadableModel
from attomaton.corpora.budgets import brief, open_regular
from attomaton.heads.reading.configs import parse_settings
from attomaton.heads.reading.families import build_model
from attomaton.heads.reading.files import adding_path, parse_json
from attomaton.heads.transformer import Transformer

MOST_MINGPT_BYTES = 1 << 28  # 256 MB; the only file in use has half a megabyte

MINGPT_SIZES = ("n_layer", "n_head", "n_embd", "vocab_size")


def read_mingpt(path: str | PathLike[str], *, dtype: torch.dtype = torch.float32) -> Transformer:
    """The model of a file; its layers are those of GPT-2, with weight matrices stored transposed."""
    file = Path(path)
    with adding_path(file, "is not a minGPT model"), open_regular(file) as stream:
        entries = _as_object(parse_json(stream, MOST_MINGPT_BYTES))
        config = _as_object(entries.pop("config", None))
        sizes = {name: config.get(name) for name in MINGPT_SIZES} | {"n_positions": config.get("block_size")}
        settings = parse_settings({**sizes, "tie_word_embeddings": False, "model_type": "gpt2"})
        tensors = {name: _parse_tensor(name, _as_object(entry)) for name, entry in entries.items()}
        for name, tensor in tensors.items():
            if ".h." in name and name.endswith(".weight") and tensor.ndim == 2:
                tensors[name] = tensor.T
        return build_model(settings, tensors, str(file), dtype)


# A JSON object; anything else counts as empty.
def _as_object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _parse_tensor(name: str, entry: dict[str, Any]) -> Tensor:
    shape, data = entry.get("shape"), entry.get("data")
    sizes: list[Any] = cast("list[Any]", shape) if isinstance(shape, list) else [None]
    if not isinstance(data, str) or entry.get("dtype") != "torch.float32":
        raise UnreadableModel(f"{brief(name)!r} is not a tensor of torch.float32")
    if len(sizes) > 4 or not all(type(size) is int and 0 <= size < 1 << 31 for size in sizes):
        raise UnreadableModel(f"the shape of {brief(name)!r} is not a list of sizes")
    try:
        numbers = bytearray(base64.b64decode(data, validate=True))
    except (ValueError, binascii.Error) as error:
        raise UnreadableModel(f"the numbers of {brief(name)!r} are not base64") from error
    if len(numbers) != 4 * math.prod(sizes):
        raise UnreadableModel(f"{brief(name)!r} has {len(numbers):,} bytes, which do not match its shape")
    flat = torch.frombuffer(numbers, dtype=torch.float32) if numbers else torch.zeros(0)
    return flat.reshape(sizes)
