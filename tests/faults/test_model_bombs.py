"""Models and tokenizers of a few megabytes that took gigabytes, or days: each is refused by name, soon."""

import json
import re
import resource
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attomaton.base.errors import UnreadableSource
from attomaton.corpora.tokenizers import Vocabulary

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
    assert re.search(
        r"model.gguf cannot be read as a model: tensors '[\w.]+' and '[\w.]+' overlap; ", said
    ), said
    assert megabytes < 1000


BACKTRACKING = "(a+)+$"
LINE = "a" * 21 + "b"


def write_tokenizer(path, **parts):
    """A tokenizer of single letters, with other parts."""
    vocab = {"<unk>": 0, "a": 1, "b": 2, LINE * 40: 3}
    record = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "<unk>"},
    }
    path.write_text(json.dumps(record | parts))


def split_by(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


@pytest.mark.slow  # it works until it is given up: ten seconds of a processor
def test_a_regular_expression_without_end_is_given_up(tmp_path):
    """Each line of the text is below Oniguruma's limit of retries, so all of them take an hour."""
    write_tokenizer(tmp_path / "tokenizer.json", pre_tokenizer=split_by(BACKTRACKING))
    (tmp_path / "a.txt").write_text(LINE * 10_000)
    command = ("learn", "a.txt", "--tokenizer", "tokenizer.json", "--quiet")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = cli(*command, seconds=300, cwd=tmp_path)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 30
    assert done.returncode == 2, done.stderr
    assert "backtracks without end; give another tokenizer" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


@pytest.mark.slow  # it works until it is given up: ten seconds of a processor
def test_a_tokenizer_without_end_hears_ctrl_c(tmp_path):
    write_tokenizer(tmp_path / "tokenizer.json", pre_tokenizer=split_by(BACKTRACKING))
    (tmp_path / "a.txt").write_text(LINE * 10_000)
    command = [sys.executable, "-c", "from attomaton.cli import main; main()"]
    with subprocess.Popen(
        [*command, "learn", "a.txt", "--tokenizer", "tokenizer.json"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        busy = Path(f"/proc/{running.pid}/stat")
        while int(busy.read_text().rsplit(")", 1)[1].split()[11]) < 600:  # six seconds of a processor
            time.sleep(0.05)
        asked = time.monotonic()
        running.send_signal(signal.SIGINT)
        try:
            _, said = running.communicate(timeout=60)
        finally:
            running.kill()
    assert time.monotonic() - asked < 5
    assert running.returncode == 130, said


@pytest.mark.slow  # it works until it is given up: ten seconds of a processor
def test_a_decoder_without_end_is_given_up(tmp_path):
    decoder = {"type": "Replace", "pattern": {"Regex": BACKTRACKING}, "content": ""}
    write_tokenizer(tmp_path / "tokenizer.json", decoder=decoder)
    vocabulary = Vocabulary.fixed(str(tmp_path / "tokenizer.json"))
    with pytest.raises(UnreadableSource, match="give another tokenizer"):
        vocabulary.join([3] * 8)


def test_a_decoder_that_doubles_a_text_again_and_again_is_refused(tmp_path):
    doubling = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    write_tokenizer(tmp_path / "tokenizer.json", decoder={"type": "Sequence", "decoders": [doubling] * 20})
    with pytest.raises(UnreadableSource, match="may lengthen a text more than 64-fold"):
        Vocabulary.fixed(str(tmp_path / "tokenizer.json"))
