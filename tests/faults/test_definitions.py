# ruff: noqa: E501  the table of definitions is easier to read with one row each
"""Tokenizer files that asked for too much, and errors of the libraries that read them."""

import json
import time

import pytest
import tokenizers

import attomaton as at
from attomaton.base.errors import UnreadableSource
from attomaton.corpora.tokenizers.ranks import SCHEMES, Scheme
from tests.faults.processes import cli


def small(**changes):
    made = json.loads(
        tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "[UNK]": 2}, "[UNK]")).to_str()
    )
    made["pre_tokenizer"] = {"type": "Whitespace"}
    model = changes.pop("model", {})
    return json.dumps({**made, **changes, "model": {**made["model"], **model}})


ADDED = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
DEFINITIONS = {
    "an id of 4·10⁹": (small(model={"vocab": {"a": 0, "b": 4_000_000_000}}), "the id of 'b' is 4000000000"),
    "an id of 2·10⁶": (small(model={"vocab": {"a": 0, "b": 2_000_000}}), "the id of 'b' is 2000000"),
    "a negative id": (small(model={"vocab": {"a": 0, "b": -1}}), "the id of 'b' is -1"),
    "half an id": (small(model={"vocab": {"a": 0, "b": 1.5}}), "the id of 'b' is 1.5"),
    "true as an id": (small(model={"vocab": {"a": 0, "b": True}}), "the id of 'b' is True"),
    "one id for two": (small(model={"vocab": {"a": 0, "b": 0, "[UNK]": 1}}), "two tokens of the vocabulary have the same id"),
    "a large added token": (small(added_tokens=[{**ADDED, "id": 4_000_000_000, "content": "<s>"}]), "the id of '<s>' is 4000000000"),
    "a long token": (small(model={"vocab": {"a": 0, "x" * 100_000: 1}}), "a token has 100,000 characters"),
    "a name twice": ('{"model": {"vocab": {"a": 0, "a": 4000000000}}}', "has a duplicate key"),
    "nested deeply": ('{"model": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
    "nested": (small(normalizer=json.loads('{"type": "Sequence", "normalizers": [' * 200 + "]}" * 200)), "not a tokenizer.json"),
    "no object": ("[]", "the file is list, not an object"),
    "long words": (small(model={"type": "WordPiece", "continuing_subword_prefix": "##", "max_input_chars_per_word": 10**12}), "max_input_chars_per_word is 1000000000000"),
    "replacing": (small(normalizer={"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 20}] * 9}), "may make a text more than 128 times as long"),
    "a broken map": (small(normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA"}), "not a tokenizer.json"),
}  # fmt: skip


@pytest.mark.parametrize("name", DEFINITIONS)
def test_tokenizer_files_that_ask_for_too_much(name, tmp_path):
    definition, message = DEFINITIONS[name]
    (tmp_path / "t.json").write_text(definition)
    begun = time.monotonic()
    with pytest.raises(UnreadableSource, match=message) as caught:
        at.Vocabulary.fixed(str(tmp_path / "t.json")).encode("a b a")
    assert str(tmp_path / "t.json") in str(caught.value)
    assert time.monotonic() - begun < 5
    assert len(str(caught.value)) < 1000


def test_a_tokenizer_without_its_unknown_token(tmp_path):
    (tmp_path / "t.json").write_text(small(model={"vocab": {"a": 0, "b": 1}}))
    vocabulary = at.Vocabulary.fixed(str(tmp_path / "t.json"))
    assert vocabulary.encode("a b a").tolist() == [0, 1, 0]
    with pytest.raises(UnreadableSource, match=r"no ids for part of the text \(.*UNK"):
        vocabulary.encode("a strange word")
    (tmp_path / "a.txt").write_text("a strange word")
    done = cli("learn", tmp_path / "a.txt", "--tokenizer", tmp_path / "t.json")
    assert (done.returncode, done.stderr.count("\nerror: "), "Traceback" in done.stderr) == (2, 1, False)


def test_ranks(tmp_path, monkeypatch):
    import base64

    monkeypatch.setitem(SCHEMES, "tiny", Scheme(r"\w+|\s|.", 257, {"<|endoftext|>": 257}))
    good = [base64.b64encode(bytes([byte])).decode() + f" {byte}" for byte in range(256)] + ["YWI= 256"]

    def read(last):
        (tmp_path / "tiny.tiktoken").write_text("\n".join([*good[:-1], *last]))
        return at.Vocabulary.fixed(str(tmp_path / "tiny.tiktoken"))

    assert read(["YWI= 256"]).encode("abc").tolist() == [256, 99]
    long = base64.b64encode(b"x" * 70_000).decode()
    for last, message in (
        (["YWI= 4000000000"], "line 257 has the rank 4000000000, not below 259"),
        (["YWI= 2000000"], "line 257 has the rank 2000000"),
        (["YWI= -1"], "line 257 is not a token"),
        (["YWI= 1_0"], "line 257 is not a token"),
        (["YWI= ٣"], "line 257 is not a token"),
        (["YWI= 1.5"], "line 257 is not a token"),
        (["YWI= 255"], "two tokens have the same rank"),
        (["YWI= 257"], "rank 257 is the id of a special token"),
        (["YQ== 256"], "line 257 repeats a token"),
        ([f"{long} 256"], "line 257 has a token of 70,000 bytes"),
    ):
        with pytest.raises(UnreadableSource, match=message):
            read(last)


def test_a_panic_of_a_library_is_an_error_of_ours():
    from attomaton.corpora.tokenizers.encoders import running

    class PanicException(BaseException):  # as Rust's panics arrive in Python
        pass

    with pytest.raises(UnreadableSource, match="the library broke"), running("the library broke"):
        raise PanicException("index out of bounds")
    with pytest.raises(KeyboardInterrupt), running("the library broke"):
        raise KeyboardInterrupt
