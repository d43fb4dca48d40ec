"""Texts over one vocabulary."""

import pytest

from attomaton.base.errors import InvalidSamples, UnreadableSource
from attomaton_experiments.mixture.texts import read_texts, split_texts


def test_words_that_train_does_not_have_are_unknown_if_train_knows_that_word():
    texts = split_texts("a b\na <unk>\n", "a c\n", share=0.5)
    assert [texts.tokens[one] for one in texts.valid] == ["a", "<unk>", "<eos>"]
    assert texts.train.tolist() == [*texts.fitted, *texts.held_out]
    with pytest.raises(InvalidSamples, match="'c' is not in the training text"):
        split_texts("a b\na\n", "a c\n", share=0.5)


def test_a_text_that_cannot_be_cut_is_refused():
    with pytest.raises(InvalidSamples, match="cannot be cut"):
        split_texts("a b\n", "a\n", share=0.5)


def test_a_folder_needs_both_files(tmp_path):
    with pytest.raises(UnreadableSource, match="holds 0 files"):
        read_texts(tmp_path, 0.5)
    (tmp_path / "train.txt").write_text("a\nb\n\n")
    with pytest.raises(UnreadableSource, match=r"valid\.txt cannot be read"):
        read_texts(tmp_path, 0.5)
    (tmp_path / "valid.txt").write_text("a\n\nb")
    assert read_texts(tmp_path, 0.4).valid.tolist() == [1, 0, 0, 2, 0]
