"""A folder with ``config.json`` and safetensors files, as a model."""

from os import PathLike
from pathlib import Path

import torch
from torch import Tensor

from attomaton.base.errors import UnreadableModel
from attomaton.heads.reading.configs import Settings, parse_settings
from attomaton.heads.reading.families import build_model
from attomaton.heads.reading.files import RESTORE, map_file, map_shards, named, parse_index, read_json
from attomaton.heads.transformer import Transformer

CONFIG, SINGLE, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"


def read_folder(
    folder: str | PathLike[str], *, name: str | None = None, dtype: torch.dtype = torch.float32
) -> Transformer:
    """The model of a folder; its weights are mapped into memory and read as they are used."""
    place = Path(folder)
    settings = read_settings(place)
    tensors = _map_weights(place)
    with named(place, "cannot be read as a model"):
        return build_model(settings, tensors, str(place) if name is None else name, dtype)


def read_settings(folder: Path) -> Settings:
    """What the configuration of a folder says."""
    config = read_json(folder / CONFIG)
    with named(folder / CONFIG, "describes no model that can be read"):
        return parse_settings(config)


def _map_weights(folder: Path) -> dict[str, Tensor]:
    if (folder / SINGLE).exists():
        return map_file(folder / SINGLE)
    if (folder / INDEX).exists():
        return map_shards(folder, parse_index(read_json(folder / INDEX), folder / INDEX))
    pickled = sorted(one.name for kind in ("*.bin", "*.pt", "*.pth") for one in folder.glob(kind))
    said = f"; {pickled[0]} is a pickle, which is never opened, so convert it" if pickled else f"; {RESTORE}"
    raise UnreadableModel(f"{folder} has neither {SINGLE} nor {INDEX}{said}")
