"""Reading and tokenising text."""

import pytest

import attomaton as at
from attomaton.base.errors import UnknownToken, UnreadableSource, UnsupportedOption
from attomaton.corpora.readers import read_text
from attomaton.corpora.tokenizers import split_words


def test_words_and_line_ends():
    assert split_words("to  be\tor\n\nnot") == ["to", "be", "or", "<eos>", "<eos>", "not"]
    assert split_words("") == []


def test_a_text_file_is_one_document(tmp_path):
    file = tmp_path / "text.txt"
    file.write_bytes("a b\r\nb é".encode())
    documents = read_text(file)
    assert read_text(_with_mark(file)).vocabulary == documents.vocabulary
    assert documents.vocabulary.tokens == ("a", "b", "<eos>", "é")
    assert documents.ids.tolist() == [0, 1, 2, 1, 3]
    assert documents.offsets.tolist() == [0, 5]
    assert len(documents.windows(2)) == 4


def _with_mark(file):
    """The same text behind a UTF-8 byte order mark."""
    marked = file.with_name("marked.txt")
    marked.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    return marked


def test_what_cannot_be_read_is_named(tmp_path):
    latin = tmp_path / "latin.txt"
    latin.write_bytes("caf\xe9 caf\xe9".encode("latin-1"))
    with pytest.raises(UnreadableSource, match=r"latin\.txt is not UTF-8 text \(byte 3: .*convert"):
        read_text(latin)
    program = tmp_path / "program.txt"
    program.write_bytes(b"\x7fELF\x02\x00\xff")
    with pytest.raises(UnreadableSource, match=r"program\.txt is not UTF-8 text .*zero bytes.* give a text"):
        read_text(program)
    with pytest.raises(UnreadableSource, match=r"is a folder"):
        read_text(tmp_path)
    with pytest.raises(OSError, match=r"missing cannot be read: No such file"):
        read_text(tmp_path / "missing")
    empty = tmp_path / "empty.txt"
    empty.write_text("")
    with pytest.raises(UnreadableSource, match=r"has 0 tokens, but two are needed"):
        read_text(empty)
    with pytest.raises(UnsupportedOption, match="tokenizer 'bpe' is unknown; choose one of word"):
        read_text(latin.with_name("empty.txt"), tokenizer="bpe")


def test_unknown_tokens_are_named():
    vocabulary, _ = at.Vocabulary.from_text("a b")
    with pytest.raises(UnknownToken, match="not in the vocabulary of 2 tokens: 'x', 'y'; check"):
        vocabulary.encode("x a y")
    assert vocabulary.decode([1, 0]) == ["b", "a"]
