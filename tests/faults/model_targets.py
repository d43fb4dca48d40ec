"""Models that are fuzzed: GGUF files, configurations and weights of every family, and what opens them.

Files are made when the first mutant is, for ``transformers`` writes them.
"""

import json
import shutil
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from tests.faults.mutants import NUMBERS, mutate_bytes, mutate_json

IDS = np.arange(12).reshape(1, -1) % 7


@cache
def gguf_files():
    """A file of each architecture, plain and quantised, its numbers and its starts."""
    import gguf

    from tests.heads.made_gguf import ARCHITECTURE_CHANGES, learn_tokens, make, write

    kinds = gguf.GGUFValueType
    begin = {"bos_token_id": (2, kinds.INT32), "add_bos_token": (True, kinds.BOOL)}
    begin = {f"tokenizer__ggml__{name}": value for name, value in begin.items()}
    files = []
    with tempfile.TemporaryDirectory() as folder:
        for kind in ARCHITECTURE_CHANGES:
            for quantised in (False, True):
                path = Path(folder) / "model.gguf"
                write(path, kind, make(kind), quantised=quantised, tokenizer=learn_tokens(300), **begin)
                blob = path.read_bytes()
                reader = gguf.GGUFReader(path)
                numbers = sum(one.data.nbytes for one in reader.tensors)
                starts = [last_number(one.field) for one in reader.tensors]
                starts += [last_number(reader.fields[name.replace("__", ".")]) for name in begin]
                files.append((blob, len(blob) - numbers, starts))
    return files


def last_number(field):
    """Where the last number of a field is in its file, and its bytes: the start of a tensor, or a value."""
    last = field.parts[-1]
    return field.offset + sum(part.nbytes for part in field.parts[:-1]), last.nbytes


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
    """Half of them with starts of tensors, or the first token, that are others."""
    blob, size, starts = rng.choice(gguf_files())
    if rng.random() < 0.5:
        return mutate_head(blob, size, rng)
    changed = bytearray(blob)
    for _ in range(rng.choice((1, 1, 2, 8, len(starts)))):
        (at, width), (other, _) = rng.choice(starts), rng.choice(starts)
        moved = blob[other : other + width]
        number = (rng.choice(NUMBERS) % (1 << 8 * width)).to_bytes(width, "little")
        changed[at : at + width] = rng.choice((moved, number))
    return bytes(changed)


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
