"""GGUF files give the weights that ``transformers`` reads from them, and broken ones end in a named error."""

import os
import struct
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from attomaton.base.errors import UnreadableModel
from attomaton.heads import open_model
from attomaton.heads.reading.families import read_object
from attomaton.heads.reading.gguf import GGUFWeights, open_gguf
from attomaton.heads.reading.gguf_tokenizer import SPLITS, read_tokenizer
from attomaton.heads.texts import read_for
from tests.heads import made

gguf = pytest.importorskip("gguf", reason="gguf is not installed (listed in tests/SKIPS.md)")
from tests.heads.made_gguf import ARCHITECTURE_CHANGES, TEXTS, learn_tokens, make, write  # noqa: E402


@pytest.mark.parametrize("quantised", [False, True])
@pytest.mark.parametrize("kind", ARCHITECTURE_CHANGES)
def test_weights_and_logits_are_those_of_transformers(kind, quantised, tmp_path):
    original, path = make(kind), tmp_path / "model.gguf"
    write(path, kind, original, quantised=quantised)
    model, weights = open_model(path), GGUFWeights(open_gguf(path))
    if kind != "olmo2":  # which transformers does not read
        from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

        theirs = load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=original)["tensors"]
        assert theirs.keys() == set(weights)
        for name, tensor in theirs.items():
            assert torch.equal(weights[name], tensor), name
    ids = np.random.default_rng(0).integers(0, 61, (2, 30))
    original.load_state_dict(dict(weights), strict=False)
    original.tie_weights()
    with torch.no_grad():
        logits = original.eval()(torch.as_tensor(ids)).logits
    torch.testing.assert_close(model.watch(ids).logits, logits, atol=1e-4, rtol=0)


def test_angles_of_llama_3_are_divided_as_the_file_says(tmp_path):
    original, path = made.make("llama 3"), tmp_path / "model.gguf"
    bands = read_object(original).rotary.bands
    frequencies = 1e4 ** -(torch.arange(0, 8, 2, dtype=torch.float64) / 8)
    divisors = (frequencies / bands.apply(frequencies)).float()
    write(path, "llama", original)
    add_tensor(path, tmp_path / "other.gguf", "rope_freqs.weight", divisors.numpy())
    ids = np.random.default_rng(0).integers(0, 61, (2, 40))
    model = open_model(tmp_path / "other.gguf")
    assert model.rotary.divisors == tuple(divisors.tolist())
    with torch.no_grad():
        logits = original(torch.as_tensor(ids)).logits
    torch.testing.assert_close(model.watch(ids).logits, logits, atol=1e-4, rtol=0)


def scaling(kind, factor):
    return {
        "llama__rope__scaling__type": (kind, gguf.GGUFValueType.STRING),
        "llama__rope__scaling__factor": (factor, gguf.GGUFValueType.FLOAT32),
    }


@pytest.mark.parametrize("width", [2, 4])
def test_angles_are_divided_by_the_file_s_numbers_and_linearly(width, tmp_path):
    """Heads of width 4, of which two coordinates are rotated, had six after a linear scaling."""
    divisors, ids = np.arange(2, 2 + width // 2, dtype=np.float32), np.arange(40).reshape(1, -1) % 7
    count = {"llama__rope__dimension_count": (width, gguf.GGUFValueType.UINT32)}
    logits = []
    for number, (extra, more) in enumerate([(scaling("linear", 3.0), 1), ({}, 3)]):
        plain, path = tmp_path / f"plain {number}.gguf", tmp_path / f"{number}.gguf"
        write(plain, "llama", make("llama"), **count, **extra)
        add_tensor(plain, path, "rope_freqs.weight", divisors * more)
        logits.append(open_model(path).watch(ids).logits)
    torch.testing.assert_close(*logits, atol=1e-5, rtol=0)
    for number, kind in enumerate(("linear", "none")):
        write(tmp_path / f"{number}.gguf", "llama", make("llama"), **count, **scaling(kind, 1.0))
        logits[number] = open_model(tmp_path / f"{number}.gguf").watch(ids).logits
    assert torch.equal(*logits)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "blk.0.post_attention_norm.weight",
            r"'blk\.0\.(ffn|post_attention)_norm\.weight' and .* the same role",
        ),
        ("model.norm.weight", "'model.norm.weight' does not belong to a model of this architecture"),
    ],
)
def test_a_tensor_too_many_is_refused(name, words, tmp_path):
    """It took the place of another, and the model was read with it."""
    write(tmp_path / "model.gguf", "llama", make("llama"))
    add_tensor(tmp_path / "model.gguf", tmp_path / "other.gguf", name, np.full(32, 9, np.float32))
    with pytest.raises(UnreadableModel, match=words):
        open_model(tmp_path / "other.gguf")


def test_phi_4_has_no_sliding_window(tmp_path):
    """Its converter writes 0 for none."""
    path, original = tmp_path / "model.gguf", made.make("phi3", sliding_window=None)
    write(path, "phi3", original, changes={"sliding_window": 0})
    ids = np.arange(40).reshape(1, -1) % 61
    with torch.no_grad():
        logits = original.eval()(torch.as_tensor(ids)).logits
    torch.testing.assert_close(open_model(path).watch(ids).logits, logits, atol=1e-4, rtol=0)


def add_tensor(source, target, name, values):
    """The file with one more tensor."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, "llama")
    for field in reader.fields.values():
        if not field.name.startswith(("GGUF.", "general.architecture")):
            writer.add_key_value(field.name, field.contents(), field.types[0])
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, np.array(tensor.data))
    writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_the_tokenizer_in_the_file_is_the_model_s(tmp_path):
    tokenizer, path = learn_tokens(300), tmp_path / "model.gguf"
    write(path, "llama", made.make("llama", vocab_size=300), tokenizer=tokenizer)
    vocabulary = read_tokenizer(path)
    assert len(vocabulary) == tokenizer.get_vocab_size()
    for text in [*TEXTS, "a<|end|>b"]:
        assert vocabulary.encode(text).tolist() == tokenizer.encode(text).ids
        assert vocabulary.join(vocabulary.encode(text)) == text


@pytest.mark.parametrize(
    ("fields", "begin"),
    [
        ({}, ()),
        ({"add_bos_token": (True, "BOOL"), "bos_token_id": (2, "UINT32")}, (2,)),
        ({"add_bos_token": (False, "BOOL"), "bos_token_id": (2, "UINT32")}, ()),
        ({"add_bos_token": (True, "BOOL")}, ()),
        ({"add_bos_token": (True, "BOOL"), "bos_token_id": ("2", "STRING")}, ()),
        ({"add_bos_token": (True, "BOOL"), "bos_token_id": (300, "UINT32")}, ()),
        ({"add_bos_token": (True, "BOOL"), "bos_token_id": (-1, "INT32")}, ()),
    ],
)
def test_texts_begin_as_the_file_asks(fields, begin, tmp_path):
    kinds = {name: (value, gguf.GGUFValueType[kind]) for name, (value, kind) in fields.items()}
    written = {f"tokenizer__ggml__{name}": value for name, value in kinds.items()}
    path, tokenizer = tmp_path / "model.gguf", learn_tokens(300)
    write(path, "llama", made.make("llama", vocab_size=300), tokenizer=tokenizer, **written)
    vocabulary, read = read_tokenizer(path), read_for([path], TEXTS)
    assert vocabulary.before == begin
    assert vocabulary.encode(TEXTS[0]).tolist() == tokenizer.encode(TEXTS[0]).ids
    ids = [[*begin, *tokenizer.encode(text).ids] for text in TEXTS]
    assert [read.ids[one:other].tolist() for one, other in pairwise(read.offsets)] == ids
    assert read.vocabulary == vocabulary
    assert read_for([path], ids) == ids


def test_sentence_pieces_are_merged_by_their_scores(tmp_path):
    pieces = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *"▁abc", "▁a", "ab", "▁ab", "abc"]
    scores = [0.0] * 261 + [-1.0, -2.0, -3.0, -4.0]
    path = tmp_path / "model.gguf"
    fields = {
        "tokenizer__ggml__model": ("llama", gguf.GGUFValueType.STRING),
        "tokenizer__ggml__tokens": (pieces, gguf.GGUFValueType.ARRAY),
        "tokenizer__ggml__scores": (scores, gguf.GGUFValueType.ARRAY),
    }
    write(path, "llama", made.make("llama"), **fields)
    vocabulary = read_tokenizer(path)
    names = [vocabulary.tokens[index] for index in vocabulary.encode("abc ab é")]
    assert names == ["▁ab", "c", "▁ab", "▁", "<0xC3>", "<0xA9>"]
    assert vocabulary.join(vocabulary.encode("abc ab é")) == "abc ab é"


def test_other_tokenizers_are_refused_with_the_way_round(tmp_path):
    path = tmp_path / "model.gguf"
    write(path, "llama", made.make("llama"))
    with pytest.raises(UnreadableModel, match=r"tokens is not a list.*--tokenizer"):
        read_tokenizer(path)
    tokens = {
        "tokenizer__ggml__model": ("gpt2", gguf.GGUFValueType.STRING),
        "tokenizer__ggml__tokens": (["a", "b"], gguf.GGUFValueType.ARRAY),
        "tokenizer__ggml__merges": (["a b"], gguf.GGUFValueType.ARRAY),
    }
    other = tokens | {"tokenizer__ggml__pre": ("tekken", gguf.GGUFValueType.STRING)}
    for number, (extra, words) in enumerate(
        [
            (other, "pre is 'tekken'; supported are default.*--tokenizer"),
            (tokens, "the merge 'a b' does not make one token.*--tokenizer"),
            (tokens | {"tokenizer__ggml__model": ("bert", gguf.GGUFValueType.STRING)}, "model is 'bert'"),
        ]
    ):
        write(tmp_path / f"{number}.gguf", "llama", made.make("llama"), **extra)
        with pytest.raises(UnreadableModel, match=words):
            read_tokenizer(tmp_path / f"{number}.gguf")
    assert "smollm" in SPLITS


def test_a_list_in_place_of_a_name_is_refused(tmp_path):
    path = tmp_path / "model.gguf"
    pre = {"tokenizer__ggml__pre": (["gpt-2"], gguf.GGUFValueType.ARRAY)}
    tokens = {
        "tokenizer__ggml__model": ("gpt2", gguf.GGUFValueType.STRING),
        "tokenizer__ggml__tokens": (["a", "b", "ab"], gguf.GGUFValueType.ARRAY),
        "tokenizer__ggml__merges": (["a b"], gguf.GGUFValueType.ARRAY),
    }
    write(path, "llama", make("llama"), **tokens, **pre)
    with pytest.raises(UnreadableModel, match=r"pre is \['gpt-2'\]; supported are default"):
        read_tokenizer(path)


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    write(path, "llama", made.make("llama"), quantised=True, tokenizer=learn_tokens(300))
    return path.read_bytes()


BROKEN = {
    "empty": (lambda _: b"", "GGUF|cannot be read"),
    "another kind": (lambda whole: b"PK" + whole[2:], "does not begin with GGUF"),
    "big-endian": (lambda whole: whole[:4] + struct.pack(">I", 3) + whole[8:], "version is 50331648"),
    "many tensors": (
        lambda whole: whole[:8] + struct.pack("<Q", 1 << 60) + whole[16:],
        "more than any file has",
    ),
    "a cut header": (lambda whole: whole[:300], "ends within its header"),
    "cut weights": (lambda whole: whole[:-4000], "does not fit in the file"),
    "another kind of model": (lambda whole: whole.replace(b"llama", b"bloom"), "is 'bloom'.*gguf_file="),
    "no such key": (lambda whole: whole.replace(b"block_count", b"flock_count"), "num_hidden_layers is None"),
    "no such tensor": (
        lambda whole: whole.replace(b"blk.1.attn_q", b"blk.1.attn_z"),
        "attn_z.weight' does not belong",
    ),
    "the same tensor": (lambda whole: whole.replace(b"blk.1.", b"blk.0."), "occurs twice"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_file_is_named(what, valid, tmp_path):
    change, words = BROKEN[what]
    path = tmp_path / "model.gguf"
    path.write_bytes(change(valid))
    with pytest.raises(UnreadableModel, match=words) as error:
        open_model(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rope.scale_linear", (4.0, gguf.GGUFValueType.FLOAT32)),
        ("rope.scaling.attn_factor", (2.0, gguf.GGUFValueType.FLOAT32)),
        ("attention.causal", (False, gguf.GGUFValueType.BOOL)),
        ("final_logit_softcapping", (1.0, gguf.GGUFValueType.FLOAT32)),
        ("made_up", (3, gguf.GGUFValueType.UINT32)),
    ],
)
def test_keys_that_may_change_the_model_are_refused_by_name(key, value, tmp_path):
    """They were ignored without a word."""
    extra = {f"llama__{key.replace('.', '__')}": value}
    write(tmp_path / "model.gguf", "llama", make("llama"), **extra)
    with pytest.raises(UnreadableModel, match=f"'?llama.{key}'? is .* not supported"):
        open_model(tmp_path / "model.gguf")


def test_keys_that_change_nothing_are_read(tmp_path):
    neutral = {
        "llama__rope__scale_linear": (1.0, gguf.GGUFValueType.FLOAT32),
        "llama__attention__causal": (True, gguf.GGUFValueType.BOOL),
        "llama__vocab_size": (12, gguf.GGUFValueType.UINT32),
    }
    model, ids = make("llama"), np.arange(10)[None]
    write(tmp_path / "plain.gguf", "llama", model)
    write(tmp_path / "keys.gguf", "llama", model, **neutral)
    one, other = (open_model(tmp_path / name).watch(ids) for name in ("plain.gguf", "keys.gguf"))
    assert torch.equal(one.logits, other.logits)


def test_layers_of_gemma_with_a_window_have_the_positions_that_the_file_says(tmp_path):
    model, ids = make("gemma3"), np.arange(10)[None]
    for name, base in (("same", 1e4), ("other", 50.0)):
        field = {"gemma3__rope__freq_base_swa": (base, gguf.GGUFValueType.FLOAT32)}
        write(tmp_path / f"{name}.gguf", "gemma3", model, **field)
    write(tmp_path / "plain.gguf", "gemma3", model)
    plain, same, other = (
        open_model(tmp_path / f"{name}.gguf").watch(ids).logits for name in ("plain", "same", "other")
    )
    assert torch.equal(plain, same)
    assert not torch.allclose(plain, other)


def mutants(whole, n, seed):
    """The file with some bytes of its header changed, cut or repeated."""
    rng, end = np.random.default_rng(seed), whole.index(b"token_embd.weight") + 2000
    for _ in range(n):
        content = bytearray(whole)
        for _ in range(rng.integers(1, 5)):
            at = int(rng.integers(0, end))
            content[at] = int(rng.choice([0, 1, 127, 128, 255, rng.integers(256)]))
        if rng.random() < 0.1:
            content = content[: rng.integers(0, len(content))]
        if rng.random() < 0.1:
            at = int(rng.integers(0, end))
            content = content[:at] + content[at : at + 40] + content[at:]
        yield bytes(content)


def check_mutants(whole, path, n, seed):
    refused = 0
    for content in mutants(whole, n, seed):
        path.write_bytes(content)
        for read in (open_model, read_tokenizer):
            try:
                read(path)
            except UnreadableModel:
                refused += 1
    assert 0 < refused < 2 * n


def test_changed_bytes_open_or_end_in_a_named_error(valid, tmp_path):
    check_mutants(valid, tmp_path / "model.gguf", 150, 0)


@pytest.mark.slow
def test_many_changed_bytes_open_or_end_in_a_named_error(valid, tmp_path):
    check_mutants(valid, tmp_path / "model.gguf", 3_000, 1)


REAL = os.environ.get("ATTOMATON_SMOLLM2", "")


@pytest.mark.slow
@pytest.mark.skipif(
    not Path(REAL).is_file(), reason="ATTOMATON_SMOLLM2 names no GGUF file (listed in tests/SKIPS.md)"
)
def test_smollm2_has_the_weights_and_ids_of_transformers():
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    folder, name = os.path.split(REAL)
    config = AutoConfig.from_pretrained(folder, gguf_file=name)
    original = AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32)
    theirs = load_gguf_checkpoint(REAL, return_tensors=True, model_to_load=original)["tensors"]
    weights = GGUFWeights(open_gguf(REAL))
    assert theirs.keys() == set(weights)
    for tensor_name, tensor in theirs.items():
        assert torch.equal(weights[tensor_name], tensor), tensor_name
    original.load_state_dict(theirs, strict=False)
    original.tie_weights()
    tokenizer, vocabulary = AutoTokenizer.from_pretrained(folder, gguf_file=name), read_tokenizer(REAL)
    for text in TEXTS:
        assert vocabulary.encode(text).tolist() == tokenizer.encode(text, add_special_tokens=False)
    ids = np.array([vocabulary.encode(" ".join(TEXTS) * 5)[:96]])
    with torch.no_grad():
        out = original.eval()(torch.as_tensor(ids).long(), output_attentions=True)
    ours = open_model(REAL).watch(ids)
    torch.testing.assert_close(ours.logits, out.logits, atol=1e-4, rtol=0)
    for pattern, other in zip(ours.patterns, out.attentions, strict=True):
        torch.testing.assert_close(pattern, other, atol=1e-5, rtol=0)
