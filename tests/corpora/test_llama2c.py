"""Tokenizers of llama2.c: the heap merges what looking at all pairs merges, and files are checked."""

import base64
import json
import struct
from itertools import pairwise

import numpy as np
import pytest

from attomaton.base.errors import UnreadableSource
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.corpora.tokenizers.llama2c import Llama2cEncoder

BASE = [b"<unk>", b"<s>", b"</s>", *(f"<0x{byte:02X}>".encode() for byte in range(256)), b" "]


def pack(tokens, scores=None):
    scores = [0.0] * len(tokens) if scores is None else scores
    parts = [struct.pack("<fi", score, len(one)) + one for one, score in zip(tokens, scores, strict=True)]
    return bytes(4) + b"".join(parts)


def make(tokens, scores=None):
    return Llama2cEncoder(base64.b64encode(pack(tokens, scores)).decode())


def encode_by_definition(encoder, text):
    """Look at all pairs, merge the best, repeat."""
    ids = encoder._characters(text)
    while True:
        merged = [encoder._ids.get(encoder._tokens[a] + encoder._tokens[b]) for a, b in pairwise(ids)]
        candidates = [
            (-encoder._scores[token], at, token) for at, token in enumerate(merged) if token is not None
        ]
        if not candidates:
            return ids
        _, at, token = min(candidates)
        ids[at : at + 2] = [token]


@pytest.mark.parametrize("seed", range(20))
def test_the_heap_merges_what_the_definition_merges(seed):
    rng = np.random.default_rng(seed)
    made = {"".join(rng.choice(list("ab c"), rng.integers(1, 5))).encode() for _ in range(25)}
    tokens = [*BASE, *sorted(made - {b" "}), b"a"]
    encoder = make(tokens, rng.integers(-3, 3, len(tokens)).astype(float).tolist())
    texts = ["".join(rng.choice(list("abc é\n"), rng.integers(0, 30))) for _ in range(20)]
    offsets, ids = encoder.encode(texts)
    for number, text in enumerate(texts):
        found = ids[offsets[number] : offsets[number + 1]].tolist()
        assert found == encode_by_definition(encoder, text)
        assert encoder.decode(found) == text


def test_stories_are_tokens_and_back(stories_model, tinystories, tmp_path):
    vocabulary = Vocabulary.fixed(str(stories_model / "tok512.bin"))
    assert len(vocabulary) == 512
    assert len(set(vocabulary.tokens)) == 512
    assert vocabulary.encode("Once upon a time").tolist() == [403, 407, 261, 378]
    encoder = vocabulary.encoder
    for story in json.loads(tinystories.read_text(encoding="utf-8"))[:3]:
        text = story[:300]
        ids = vocabulary.encode(text).tolist()
        assert ids == encode_by_definition(encoder, text)
        assert encoder.decode(ids) == text
    assert (
        Vocabulary.from_record(vocabulary.to_record()).encode("a dog").tolist()
        == vocabulary.encode("a dog").tolist()
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        pack(BASE[:200]),
        pack(BASE)[:-3],
        pack(BASE)[:-1] + struct.pack("<fi", 0.0, -4),
        pack(BASE) + struct.pack("<fi", 0.0, 1 << 30),
        pack(BASE, [float("nan")] * len(BASE)),
        pack(BASE) + b"\0",
    ],
)
def test_a_wrong_file_is_named(content, tmp_path):
    file = tmp_path / "tok.bin"
    file.write_bytes(content)
    with pytest.raises(UnreadableSource, match=r"tok\.bin"):
        Vocabulary.fixed(str(file))
