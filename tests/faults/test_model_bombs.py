"""Models and tokenizers of a few megabytes that took gigabytes, or days: each is refused by name, soon."""

import json
import re
import struct
import subprocess
import sys

import pytest

gguf = pytest.importorskip("gguf", reason="gguf is not installed (listed in tests/SKIPS.md)")
from tests.faults.processes import cli  # noqa: E402

MEASURED = """
import re, resource, sys
from pathlib import Path
from attomaton.base.errors import AttomatonError
resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
from attomaton.heads import open_model
try:
    told = type(open_model(sys.argv[1])).__name__
except AttomatonError as error:
    told = error
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024, told)
"""
WIDTH, LAYERS = 1024, 60
SHAPES = {
    "attn_q": (WIDTH, WIDTH),
    "attn_k": (WIDTH, WIDTH),
    "attn_v": (WIDTH, WIDTH),
    "attn_output": (WIDTH, WIDTH),
    "ffn_gate": (2 * WIDTH, WIDTH),
    "ffn_up": (2 * WIDTH, WIDTH),
    "ffn_down": (WIDTH, 2 * WIDTH),
    "attn_norm": (WIDTH,),
    "ffn_norm": (WIDTH,),
}


def measure_model(path):
    """The peak of opening a model in a process of its own, in MB, and what it said."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, path], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    megabytes, said = done.stdout.split(" ", 1)
    return int(megabytes), said.strip()


def text_of(text):
    return struct.pack("<Q", len(text)) + text.encode()


def field(name, value):
    if isinstance(value, str):
        return text_of(name) + struct.pack("<I", 8) + text_of(value)
    kind, code = (6, "f") if isinstance(value, float) else (4, "I")
    return text_of(name) + struct.pack(f"<I{code}", kind, value)


def write_overlapping(path, *, starts):
    """A Llama in F16 whose tensors begin where ``starts`` says, in one small stretch of zeros."""
    fields = {
        "general.architecture": "llama",
        "llama.block_count": LAYERS,
        "llama.context_length": 64,
        "llama.embedding_length": WIDTH,
        "llama.feed_forward_length": 2 * WIDTH,
        "llama.attention.head_count": 8,
        "llama.attention.head_count_kv": 8,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
    }
    tensors = {"token_embd.weight": (61, WIDTH), "output_norm.weight": (WIDTH,)}
    tensors |= {f"blk.{n}.{name}.weight": shape for n in range(LAYERS) for name, shape in SHAPES.items()}
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields))
    head += b"".join(field(name, value) for name, value in fields.items())
    for number, (name, shape) in enumerate(tensors.items()):
        axes = struct.pack(f"<I{len(shape)}Q", len(shape), *shape[::-1])
        head += text_of(name) + axes + struct.pack("<IQ", 1, starts(number))
    head += bytes(-len(head) % 32)
    path.write_bytes(head + bytes(9 << 20))


@pytest.mark.parametrize("starts", [lambda _: 0, lambda number: 32 * number], ids=["the same", "shifted"])
def test_a_gguf_file_whose_tensors_overlap_is_refused_before_they_are_read(starts, tmp_path):
    path = tmp_path / "model.gguf"
    write_overlapping(path, starts=starts)
    assert path.stat().st_size < 10e6
    megabytes, said = measure_model(path)
    assert re.search(r"model.gguf cannot be read as a model: tensors '[\w.]+' and '[\w.]+' overlap; ", said), said
    assert megabytes < 1000
