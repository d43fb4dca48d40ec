"""Files are believed only as far as they were checked: everything else is an error with a name."""

import json
import pickle
import struct
import time
from io import BytesIO

import numpy as np
import pytest
import torch

from attomaton.base.errors import AttomatonError, UnreadableModel
from attomaton.heads.reading.files import map_file, parse_json
from attomaton.heads.reading.folders import read_folder
from tests.heads import made


def pack(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


WRONG = {
    "nothing": b"",
    "a length beyond the file": struct.pack("<Q", 1 << 60) + b"{}",
    "a length beyond the bound": struct.pack("<Q", 100_000_001) + bytes(20),
    "no JSON": pack(b"[nonsense"),
    "no object": pack([]),
    "not UTF-8": pack(b'{"\xff": 1}'),
    "nested too deeply": pack(b'{"a":' * 30_000),
    "a dtype that is not known": pack({"a": entry("X99")}, bytes(8)),
    "a dtype that is no text": pack({"a": entry([1])}, bytes(8)),
    "a size that does not fit": pack({"a": entry(shape=(3,))}, bytes(8)),
    "a negative size": pack({"a": entry(shape=(-2,))}, bytes(8)),
    "a fraction of a size": pack({"a": entry(shape=(2.0,))}, bytes(8)),
    "a true size": pack({"a": entry(shape=(True, 2))}, bytes(8)),
    "sizes whose product runs over": pack({"a": entry(shape=(1 << 47, 1 << 47, 4))}, bytes(8)),
    "a number of many digits": pack(b'{"a": {"dtype": "F32", "shape": [' + b"9" * 5000 + b"]}}"),
    "not a number": pack(b'{"a": {"dtype": "F32", "shape": [NaN], "data_offsets": [0, 8]}}', bytes(8)),
    "offsets turned round": pack({"a": entry(offsets=(8, 0))}, bytes(8)),
    "offsets beyond the file": pack({"a": entry(offsets=(8, 16))}, bytes(8)),
    "an empty tensor of a size without bounds": pack({"a": entry(shape=[2**47, 2**47, 0], offsets=(0, 0))}),
    "an overlap": pack({"a": entry(), "b": entry(offsets=(4, 12))}, bytes(12)),
    "a gap": pack({"a": entry(), "b": entry(offsets=(12, 20))}, bytes(20)),
    "more bytes than tensors": pack({"a": entry()}, bytes(9)),
    "fewer bytes than tensors": pack({"a": entry()}, bytes(7)),
    "metadata of numbers": pack({"__metadata__": {"a": 1}, "a": entry()}, bytes(8)),
    "a pickle": pickle.dumps({"a": np.zeros(2)}),
    "a pickle of code": b"\x80\x04\x95\x1d\x00\x00\x00\x00\x00\x00\x00cposix\nsystem\n(S'echo'\ntR.",
    "eight-bit floats": pack({"a": entry("F8_E4M3", (8,))}, bytes(8)),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_file_is_an_error_that_names_it(what, tmp_path):
    file = tmp_path / "model.safetensors"
    file.write_bytes(WRONG[what])
    with pytest.raises(UnreadableModel, match=r"model\.safetensors.*; restore the file"):
        map_file(file)


def test_tensors_are_those_that_the_format_s_own_library_wrote(tmp_path):
    tensors = made.write(tmp_path, "gpt2", dtype=torch.bfloat16)
    found = map_file(tmp_path / "model.safetensors")
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)


def test_numbers_off_their_borders_are_read(tmp_path):
    text = json.dumps({"a": entry()}).encode()
    text += b" " * ((3 - len(text)) % 8)  # the numbers begin at an odd byte
    (tmp_path / "m.safetensors").write_bytes(pack(text, np.float32([1, 2]).tobytes()))
    assert map_file(tmp_path / "m.safetensors")["a"].tolist() == [1, 2]


def test_weights_stay_on_the_disk_until_they_are_used(tmp_path):
    made.write(tmp_path, "gpt2")
    content = (tmp_path / "model.safetensors").read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    model = read_folder(tmp_path)
    held = {"wte.weight": model.embedding, "wpe.weight": model.position_embeddings}
    held["h.1.attn.c_attn.weight"] = model.layers[1].attention.query.weight
    begins = {name: tensor.data_ptr() - header[name]["data_offsets"][0] for name, tensor in held.items()}
    assert len(set(begins.values())) == 1, "these are views of one mapped file, and no copies"


CHANGED = {
    "another model": ({"model_type": "bloom"}, "supported are .*gpt2, gpt_neo.*load it with transformers"),
    "no model": ({"model_type": None}, "supported are"),
    "a list as model": ({"model_type": ["gpt2"]}, "supported are"),
    "quantised": ({"quantization_config": {"bits": 4}}, "quantised"),
    "quantised by MLX": ({"quantization": {"bits": 4}}, "quantised by MLX.*mlx_lm.convert --dequantize"),
    "other layers": ({"n_layer": 3}, "there is no tensor 'h.2"),
    "fewer layers": ({"n_layer": 1}, "tensor 'h.1.* does not belong"),
    "layers without end": ({"n_layer": 10**30}, "n_layer is 1000.*must be whole, from 1"),
    "a fraction": ({"n_head": 2.0}, "n_head is 2.0"),
    "true": ({"n_head": True}, "n_head is True"),
    "heads that do not fit": ({"n_head": 5}, "n_embd 32 is not a multiple of n_head 5"),
    "another width": ({"n_embd": 64}, "has shape .* but the configuration requires"),
    "another activation": ({"activation_function": "exec"}, "is 'exec'; supported are gelu"),
    "no epsilon": ({"layer_norm_epsilon": 0}, "layer_norm_epsilon is 0"),
    "infinite": ({"layer_norm_epsilon": 1e999}, "config.json"),
    "a second text": ({"add_cross_attention": True}, "add_cross_attention"),
    "untied": ({"tie_word_embeddings": False}, "no tensor 'lm_head.weight'"),
    "a text for a flag": ({"scale_attn_weights": "yes"}, "it must be true or false"),
}


@pytest.mark.parametrize("what", CHANGED)
def test_a_configuration_that_is_not_the_file_s_is_named(what, tmp_path):
    changes, words = CHANGED[what]
    made.write(tmp_path, "gpt2")
    config = json.loads((tmp_path / "config.json").read_text()) | changes
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnreadableModel, match=words):
        read_folder(tmp_path)


def test_code_that_a_configuration_names_has_no_effect(tmp_path):
    made.write(tmp_path, "gpt2")
    before = read_folder(tmp_path).watch(np.array([[1, 2, 3]])).logits
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"auto_map": {"AutoModelForCausalLM": "evil.Model"}, "trust_remote_code": True}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "evil.py").write_text("raise SystemExit('was run')")
    assert torch.equal(read_folder(tmp_path).watch(np.array([[1, 2, 3]])).logits, before)


def test_numbers_that_are_not_finite_are_named(tmp_path):
    import safetensors.torch

    tensors = made.write(tmp_path, "gpt2")
    tensors["ln_f.bias"][3] = float("nan")
    safetensors.torch.save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(UnreadableModel, match=r"'ln_f\.bias' contains numbers that are not finite"):
        read_folder(tmp_path)


def test_a_folder_of_pickles_is_not_opened(tmp_path):
    made.write(tmp_path, "gpt2")
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps([1]))
    with pytest.raises(UnreadableModel, match=r"pytorch_model\.bin is a pickle, which is never opened"):
        read_folder(tmp_path)


@pytest.mark.parametrize(
    "file", ["../model.safetensors", "/etc/passwd", "a.bin", "", 3, ".safetensors", "no.safetensors"]
)
def test_an_index_names_only_files_beside_it(file, tmp_path):
    made.write(tmp_path / "model", "gpt2")
    (tmp_path / "model" / "model.safetensors").rename(tmp_path / "model.safetensors")
    index = tmp_path / "model" / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"wte.weight": file}}))
    with pytest.raises(UnreadableModel):
        read_folder(tmp_path / "model")


def mutate(content, rng):
    """A few bytes changed, cut, doubled, or replaced by what JSON may hold."""
    content = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        place = int(rng.integers(0, max(1, min(len(content), rng.choice([8, 60, 2000, 10**6])))))
        kind = rng.integers(0, 5)
        if kind == 0 and content:
            content[place % len(content)] = int(rng.integers(0, 256))
        elif kind == 1:
            del content[place : place + int(rng.integers(1, 40))]
        elif kind == 2:
            content[place:place] = content[place : place + int(rng.integers(1, 40))]
        elif kind == 3:
            words = [
                b"null",
                b"-1",
                b"1e999",
                b"[]",
                b"{}",
                b'"\\ud800"',
                b"99999999999999999999",
                b"true",
                b"0",
            ]
            content[place : place + int(rng.integers(0, 8))] = words[rng.integers(0, len(words))]
        else:
            content[place:] = b"" if rng.random() < 0.3 else content[place:]
    return bytes(content)


def read_mutants(folder, family, count, seed):
    """How many of so many mutants were read, and how many refused; any other end is an error of ours."""
    rng = np.random.default_rng(seed)
    made.write(folder, family)
    files = [folder / "config.json", folder / "model.safetensors"]
    whole = [file.read_bytes() for file in files]
    ends = {True: 0, False: 0}
    for _ in range(count):
        which = int(rng.integers(0, 2))
        files[which].write_bytes(mutate(whole[which], rng))
        try:
            read_folder(folder).watch(np.array([[1, 2]]))
            ends[True] += 1
        except AttomatonError as error:
            str(error).encode("utf-8", errors="strict")
            ends[False] += 1
        files[which].write_bytes(whole[which])
    return ends


TINY = ("gpt2", "llama")


@pytest.mark.slow  # campaign
@pytest.mark.parametrize("family", TINY)
def test_mutants_are_read_or_refused_by_name(family, tmp_path):
    ends = read_mutants(tmp_path, family, 1000, seed=0)
    assert ends[False] > 500


@pytest.mark.slow
@pytest.mark.parametrize("family", TINY)
def test_fifty_thousand_mutants_are_read_or_refused_by_name(family, tmp_path):
    assert sum(read_mutants(tmp_path, family, 50_000, seed=1).values()) == 50_000


def test_a_name_that_is_there_twice_among_many_is_found_at_once():
    pairs = ",".join(f'"k{number}": 1' for number in range(200_000))
    began = time.process_time()
    with pytest.raises(UnreadableModel, match="'k7' occurs twice"):
        parse_json(BytesIO(f'{{{pairs}, "k7": 2}}'.encode()), 1 << 24)
    assert time.process_time() - began < 5
