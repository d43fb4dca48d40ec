"""Models that are fuzzed: GGUF files, configurations and weights of every family, and what opens them.

Files are made when the first mutant is, for ``transformers`` writes them.
"""

import json
import shutil
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from tests.faults.mutants import mutate_bytes, mutate_json

IDS = np.arange(12).reshape(1, -1) % 7


@cache
def gguf_files():
    """A file of each architecture, plain and quantised, and where its numbers begin."""
    from tests.heads.made_gguf import ARCHITECTURE_CHANGES, learn_tokens, make, write

    files = []
    with tempfile.TemporaryDirectory() as folder:
        for kind in ARCHITECTURE_CHANGES:
            for quantised in (False, True):
                path = Path(folder) / "model.gguf"
                write(path, kind, make(kind), quantised=quantised, tokenizer=learn_tokens(300))
                blob = path.read_bytes()
                numbers = sum(one.nbytes for one in gguf_tensors(path))
                files.append((blob, len(blob) - numbers))
    return files


def gguf_tensors(path):
    import gguf

    return [one.data for one in gguf.GGUFReader(path).tensors]


@cache
def folders():
    """Family → its configuration and its weights."""
    import torch
    import transformers

    from tests.heads import made

    torch.set_num_threads(1)  # threads do not survive a fork
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    files = {}
    for name in made.CONFIGS:
        with tempfile.TemporaryDirectory() as folder:
            made.make(name).save_pretrained(folder)
            files[name] = [(Path(folder) / one).read_bytes() for one in ("config.json", "model.safetensors")]
    return files


def mutate_head(blob, size, rng):
    """Mostly what stands before the numbers."""
    if rng.random() < 0.2:
        return mutate_bytes(blob, rng)
    return mutate_bytes(blob[:size], rng) + blob[size:]


def mutate_gguf(rng):
    return mutate_head(*rng.choice(gguf_files()), rng)


def mutate_safetensors(rng):
    """A file of weights, with its family in front of it."""
    place = rng.randrange(len(folders()))
    weights = list(folders().values())[place][1]
    header = 8 + int.from_bytes(weights[:8], "little")
    if rng.random() < 0.3:
        text = mutate_json(weights[8:header].decode(), rng)
        return bytes([place]) + len(text).to_bytes(8, "little") + text + weights[header:]
    return bytes([place]) + mutate_head(weights, header, rng)


def mutate_config(rng):
    text = rng.choice([config for config, _ in folders().values()])
    return mutate_json(text.decode(), rng) if rng.random() < 0.8 else mutate_bytes(text, rng)


def watch(path):
    from attomaton.heads import open_model

    model = open_model(path)
    patterns = model.watch(IDS % model.shape.n_tokens).patterns
    assert all(one.shape[-2:] == (IDS.size, IDS.size) for one in patterns)


def read_gguf(path, number):
    """The model, and every fourth time its tokenizer."""
    if number % 4:
        watch(path)
        return
    from attomaton.heads.reading.gguf_tokenizer import read_tokenizer

    vocabulary = read_tokenizer(path)
    assert all(0 <= one < len(vocabulary) for one in vocabulary.encode("Once there's 1999 漢字 <|end|>"))


def read_weights(path, number):
    blob = path.read_bytes()
    config, _ = list(folders().values())[blob[0]]
    _watch_folder(path.parent / "folder", config, blob[1:])


def read_config(path, number):
    """With the weights of the family that it names."""
    blob = path.read_bytes()
    try:
        family = json.loads(blob)["model_type"]
    except (ValueError, KeyError, TypeError, RecursionError):
        family = None
    files = folders()
    _, weights = files[family] if isinstance(family, str) and family in files else files["llama"]
    _watch_folder(path.parent / "folder", blob, weights)


def _watch_folder(folder, config, weights):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "config.json").write_bytes(config)
    (folder / "model.safetensors").write_bytes(weights)
    watch(folder)
