"""Models and tokenizers of a few megabytes that took gigabytes, or days: each is refused by name, soon."""

import base64
import json
import random
import re
import resource
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attomaton.base.errors import UnreadableModel, UnreadableSource
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.heads import open_model

gguf = pytest.importorskip("gguf", reason="gguf is not installed (listed in tests/SKIPS.md)")
from tests.faults.processes import cli  # noqa: E402

TOKENIZED = """
import re, resource, sys
from pathlib import Path
from attomaton.base.errors import AttomatonError
resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.heads.reading.gguf_tokenizer import read_tokenizer
try:
    gguf = sys.argv[1].endswith(".gguf")
    told = (read_tokenizer if gguf else Vocabulary.fixed)(sys.argv[1]).encode("a ")
except AttomatonError as error:
    told = error
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024, told)
"""
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


def measure_model(path, code=MEASURED):
    """The peak of opening a model in a process of its own, in MB, and what it said."""
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=False, timeout=120
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
    assert "backtracks without end; use another tokenizer" in " ".join(done.stderr.split())
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
    with pytest.raises(UnreadableSource, match="use another tokenizer"):
        vocabulary.join([3] * 8)


@pytest.mark.slow  # it works until it is given up: 25 seconds of a processor
def test_a_long_text_takes_a_tokenizer_30_seconds_at_most(tmp_path):
    """Of a text of ten megabytes it was given up after 110 s."""
    write_tokenizer(tmp_path / "tokenizer.json", pre_tokenizer=split_by(BACKTRACKING))
    vocabulary = Vocabulary.fixed(str(tmp_path / "tokenizer.json"))
    text, before = LINE * 450_000, time.process_time()
    with pytest.raises(UnreadableSource, match="backtracks without end; use another tokenizer"):
        vocabulary.encode(text)
    assert time.process_time() - before < 30


BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
WHOLE = {"Sequence": {"id": "A", "type_id": 0}}
CHARSMAP = base64.b64encode(struct.pack("<II", 4, 0) + b"a" * 60_000 + b"\0").decode()


def replace_by(content, **pattern):
    return {"type": "Replace", "pattern": pattern, "content": content}


def in_sequence(name, parts):
    return {"type": "Sequence", name: parts}


GROWING = {
    "a decoder that doubles": {"decoder": in_sequence("decoders", [replace_by("aa", String="a")] * 20)},
    "replacing nothing": {"normalizer": in_sequence("normalizers", [replace_by("x", String="")] * 30)},
    "replacing what is ahead": {
        "normalizer": in_sequence("normalizers", [replace_by("x", Regex="(?=.)")] * 30)
    },
    "without types": {
        "normalizer": {"normalizers": [{"pattern": {"String": "a"}, "content": "aa"}] * 30},
    },
    "bytes of bytes": {"pre_tokenizer": in_sequence("pretokenizers", [BYTES] * 30)},
    "a long beginning": {"normalizer": {"type": "Prepend", "prepend": "x" * 60_000}},
    "a template": {
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [WHOLE] * 10_000,
            "pair": [WHOLE, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {},
        }
    },
    "delimiters of nothing": {
        "decoder": in_sequence(
            "decoders",
            [{"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "", "cleanup": True}] * 30,
        )
    },
    "suffixes of nothing": {"decoder": in_sequence("decoders", [{"type": "BPEDecoder", "suffix": ""}] * 30)},
    "normal forms": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": CHARSMAP}},
}


@pytest.mark.parametrize("parts", GROWING.values(), ids=GROWING)
def test_a_tokenizer_that_lengthens_a_text_without_bound_is_refused(parts, tmp_path):
    write_tokenizer(tmp_path / "tokenizer.json", **parts)
    with pytest.raises(UnreadableSource, match="may make a text more than 128 times as long"):
        Vocabulary.fixed(str(tmp_path / "tokenizer.json"))


def test_a_tokenizer_that_lengthens_a_text_a_little_is_read(tmp_path):
    """Many replacements of spaces, whose matches are never empty, lengthen nothing."""
    spaces = [replace_by(" ", Regex=pattern) for pattern in (" {2,}", r"\s+", r"[\t\n]+", r"\u00a0") * 5]
    first = in_sequence("normalizers", [{"type": "Prepend", "prepend": "▁"}, *spaces])
    write_tokenizer(tmp_path / "tokenizer.json", normalizer=first, pre_tokenizer=BYTES)
    assert Vocabulary.fixed(str(tmp_path / "tokenizer.json")).encode("a  b").tolist() == [0]


def test_a_unigram_vocabulary_of_long_tokens_is_refused(tmp_path):
    """Its trie took 3.3 GB."""
    path = tmp_path / "tokenizer.json"
    vocab = [["<unk>", 0.0], *([chr(0x100 + number) + "a" * 59_000, -1.0] for number in range(160))]
    write_tokenizer(path, model={"type": "Unigram", "unk_id": 0, "vocab": vocab})
    assert path.stat().st_size < 10e6
    megabytes, said = measure_model(path, TOKENIZED)
    assert "the tokens have more than 2,097,152 distinct beginnings" in said
    assert megabytes < 1000


def write_sentence_pieces(path, tokens, kind):
    """The header of a GGUF file, with a SentencePiece vocabulary of these tokens."""
    texts = b"".join(map(text_of, tokens))
    scores = struct.pack(f"<{len(tokens)}f", *[0.0] * len(tokens))
    kinds = struct.pack(f"<{len(tokens)}i", *[kind] * len(tokens))
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 4) + field("tokenizer.ggml.model", "llama")
    for name, code, content in (("tokens", 8, texts), ("scores", 6, scores), ("token_type", 5, kinds)):
        head += text_of(f"tokenizer.ggml.{name}") + struct.pack("<IIQ", 9, code, len(tokens)) + content
    path.write_bytes(head)


@pytest.mark.parametrize(
    ("kind", "words"),
    [(1, "make more than 1,048,576 merges"), (3, "65,536 of its tokens are control or user")],
)
def test_a_sentence_piece_vocabulary_of_too_many_merges_or_added_tokens_is_refused(kind, words, tmp_path):
    """Its tokenizer took 2.6 GB, or 46 s, and was then refused as too long."""
    path, rng = tmp_path / "model.gguf", random.Random(1)  # noqa: S311  no secret
    text = "".join(map(chr, rng.choices(range(97, 123), k=2800)))
    write_sentence_pieces(path, sorted({text[at : at + n] for at in range(2800) for n in range(1, 64)}), kind)
    assert path.stat().st_size < 10e6
    megabytes, said = measure_model(path, TOKENIZED)
    assert words in said
    assert megabytes < 1000


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"llama.attention.head_count": 2048}, "2,048 heads in a layer, more than 1,024"),
        ({"llama.feed_forward_length": 600_000}, "more than 256 times as wide as its residual stream, 2"),
    ],
)
def test_a_model_far_wider_than_its_stream_is_refused(changes, words, tmp_path):
    """A hidden layer of 800,000 took 6.5 GB for a file of 9.6 MB."""
    fields = {
        "general.architecture": "llama",
        "llama.block_count": 1,
        "llama.context_length": 64,
        "llama.embedding_length": 2,
        "llama.feed_forward_length": 2,
        "llama.attention.head_count": 1,
        "llama.attention.head_count_kv": 1,
        "llama.attention.key_length": 2,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
    } | changes
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, len(fields))
    head += b"".join(field(name, value) for name, value in fields.items())
    head += text_of("token_embd.weight") + struct.pack("<IQQIQ", 2, 2, 9, 0, 0)
    (tmp_path / "model.gguf").write_bytes(head + bytes(200))
    with pytest.raises(UnreadableModel, match=words):
        open_model(tmp_path / "model.gguf")
