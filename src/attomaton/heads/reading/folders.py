"""Models in a folder with ``config.json`` and safetensors files, on disk or on the hub."""

import re
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from attomaton.base.errors import AttomatonError, UnreadableModel, needing
from attomaton.corpora.budgets import brief
from attomaton.heads.reading.configs import Settings, parse_settings
from attomaton.heads.reading.families import build_model
from attomaton.heads.reading.files import RESTORE, adding_path, map_file, map_shards, parse_index, read_json
from attomaton.heads.transformer import Transformer

TOKENIZER = "tokenizer.json"
CONFIG_FILE, SINGLE, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?", re.ASCII)
COMMIT = re.compile(r"[0-9a-f]{40}")
Download = TypeVar("Download")


def read_folder(
    folder: str | PathLike[str], *, name: str | None = None, dtype: torch.dtype = torch.float32
) -> Transformer:
    """The model in a folder; its weights are mapped into memory and read on demand."""
    path = Path(folder)
    settings = read_settings(path)
    tensors = _map_weights(path)
    with adding_path(path, "cannot be read as a model"):
        return build_model(settings, tensors, str(path) if name is None else name, dtype)


def read_settings(folder: Path) -> Settings:
    # from the config.json of a folder
    config = read_json(folder / CONFIG_FILE)
    with adding_path(folder / CONFIG_FILE, "does not describe a supported model"):
        return parse_settings(config)


def _map_weights(folder: Path) -> dict[str, Tensor]:
    # the tensors by name, from one file, or from the files of an index
    if (folder / SINGLE).exists():
        return map_file(folder / SINGLE)
    if (folder / INDEX).exists():
        return map_shards(folder, parse_index(read_json(folder / INDEX), folder / INDEX))
    pickles = sorted(file.name for kind in ("*.bin", "*.pt", "*.pth") for file in folder.glob(kind))
    unread = f"{pickles[0]} is a pickle, which is never opened; convert it to safetensors" if pickles else ""
    raise UnreadableModel(f"{folder} has neither {SINGLE} nor {INDEX}; {unread or RESTORE}")


def read_hub(repository: str, revision: str, *, dtype: torch.dtype = torch.float32) -> Transformer:
    """A model on the hub at a commit, branch or tag; the commit is in the name of the model."""
    commit, folder = _from_hub(repository, revision, _fetch)
    return read_folder(folder, name=f"{repository}@{commit}", dtype=dtype)


def fetch_tokenizer(repository: str, revision: str) -> Path | None:
    return _from_hub(repository, revision, _fetch_tokenizer)[1]


def _from_hub(
    repository: str, revision: str, fetch: Callable[[Any, str, str], Download]
) -> tuple[str, Download]:
    # the commit to which a revision resolves, and what `fetch` (hub, repository, commit) downloads at this
    # commit
    if not HUB_ID.fullmatch(repository):
        raise UnreadableModel(f"{brief(repository)!r} is not a model on the hub; give owner/name")
    with needing("a model on the hub"):
        import huggingface_hub
    hub: Any = huggingface_hub
    try:
        commit = revision if COMMIT.fullmatch(revision) else _resolve(hub, repository, revision)
        return commit, fetch(hub, repository, commit)
    except AttomatonError:
        raise
    except Exception as error:  # the library raises errors of several others
        reason = brief(str(error).strip() or type(error).__name__)
        raise UnreadableModel(
            f"{repository} at {brief(revision)} cannot be downloaded: {reason}; "
            "check the spelling and the network, or give a folder"
        ) from error


def _resolve(hub: Any, repository: str, revision: str) -> str:
    # the commit of a branch, a tag or a short commit
    commit = hub.HfApi().model_info(repository, revision=revision).sha
    if not isinstance(commit, str) or not COMMIT.fullmatch(commit):
        raise UnreadableModel(
            f"the hub has no commit for {repository} at {brief(revision)}; give a commit of 40 digits"
        )
    return commit


def _fetch_tokenizer(hub: Any, repository: str, commit: str) -> Path | None:
    # the tokenizer.json of a repository, if it has one
    if TOKENIZER not in hub.HfApi().list_repo_files(repository, revision=commit):
        return None
    return Path(hub.hf_hub_download(repository, TOKENIZER, revision=commit))


def _fetch(hub: Any, repository: str, commit: str) -> Path:
    # Download the required files, and return their folder. The configuration is checked before the weights
    # are downloaded, and the error of a missing file is that of the download.

    def fetch(name: str) -> Path:
        return Path(hub.hf_hub_download(repository, name, revision=commit))

    folder = fetch(CONFIG_FILE).parent
    read_settings(folder)
    files = set(hub.HfApi().list_repo_files(repository, revision=commit))
    if TOKENIZER in files:
        fetch(TOKENIZER)
    if SINGLE in files or INDEX not in files:
        fetch(SINGLE)
        return folder
    index = fetch(INDEX)
    for name in sorted(set(parse_index(read_json(index), index).values())):
        fetch(name)
    return folder
