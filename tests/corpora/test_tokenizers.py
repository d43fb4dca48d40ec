"""Tokenizers: the ids are those of the reference libraries; the vocabulary is saved with the run."""

import hashlib
import json
import subprocess
import sys

import numpy as np
import pytest
import tiktoken
import tiktoken_ext.openai_public
import tokenizers
from hypothesis import given, strategies as st

import attomaton as at
from attomaton.base.errors import UnknownToken, UnreadableSource, UnsupportedOption
from attomaton.corpora.readers import read_corpus
from attomaton.corpora.readers.tokenize import tokenize_corpus
from attomaton.corpora.tokenizers import TOKENIZERS
from attomaton.corpora.tokenizers.ranks import SCHEMES

ODD = [
    "",
    " ",
    "   ",
    "\n",
    " \n \n\n  x  \t\r\n",
    "emoji 👩🏽‍🚀🏳️‍🌈 é e\u0301 ﬁ",
    "שלום עולם 123 مرحبا بالعالم",
    "\u200f\u202e\u2066",
    "a\x00b\x00\x00",
    "\ufeff\ufffe\uffff\U0010ffff",
    "日本語テキスト中文한국어",
    "don't DON'T we'll I'VE '''s",
    "1234567890 3.14159 ½ ²",
    "<|endoftext|> <|fim_prefix|> <eos>",
    "x" * 5000,
    " " * 3000,
    "naïve\u00a0café\u2003\u3000z",
    "\r\r\n\n\x0b\x0c\x85\u2028",
]
URL = "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken"


@pytest.fixture(scope="module")
def files(wikitext):
    folder = wikitext.parent / "tokenizers"
    return {"gpt2": folder / "gpt2" / "tokenizer.json", "cl100k": folder / "cl100k" / "cl100k_base.tiktoken"}


@pytest.fixture(scope="module")
def references(files, tmp_path_factory):
    """The libraries themselves; tiktoken finds its ranks in its own cache, under the digest of their URL."""
    cache = tmp_path_factory.mktemp("cache")
    (cache / hashlib.sha1(URL.encode()).hexdigest()).write_bytes(files["cl100k"].read_bytes())  # noqa: S324
    gpt2 = tokenizers.Tokenizer.from_file(str(files["gpt2"]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", str(cache))
        cl100k = tiktoken.get_encoding("cl100k_base")
    return {
        "gpt2": lambda text: gpt2.encode(text, add_special_tokens=False).ids,
        "cl100k": cl100k.encode_ordinary,
    }


@pytest.fixture(scope="module")
def corpus(wikitext, tmp_path_factory):
    """WikiText-2 valid and tinyshakespeare in pages, and the odd texts."""
    folder = tmp_path_factory.mktemp("corpus")
    texts = []
    for name, path in (("a", wikitext / "valid.txt"), ("b", wikitext.parent / "tinyshakespeare/input.txt")):
        text = path.read_text(encoding="utf-8")
        pages = [text[start : start + 30_000] for start in range(0, len(text), 30_000)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps({"text": page}) + "\n" for page in pages))
        texts += pages
    (folder / "c.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in ODD))
    return folder, [*texts, *ODD]


@pytest.mark.slow  # real tokenizers in several processes
@pytest.mark.parametrize("name", ["gpt2", "cl100k"])
def test_ids_are_those_of_the_library_also_in_parallel(name, files, references, corpus, tmp_path):
    folder, texts = corpus
    documents = tokenize_corpus(folder, tmp_path, tokenizer=str(files[name]), workers=2).documents()
    offsets = documents.offsets.tolist()
    for number, text in enumerate(texts):
        found = documents.ids[offsets[number] : offsets[number + 1]]
        assert np.array_equal(found, references[name](text)), text[:50]
    assert len(offsets) == len(texts) + 1


@pytest.mark.parametrize("name", ["gpt2", "cl100k"])
@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_has_the_ids_of_the_library(name, text, files, references, vocabularies):
    assert vocabularies[name].encode(text).tolist() == list(references[name](text))


@pytest.fixture(scope="module")
def vocabularies(files):
    return {name: at.Vocabulary.fixed(str(file)) for name, file in files.items()}


def test_names_of_subwords(vocabularies):
    gpt2, cl100k = vocabularies["gpt2"], vocabularies["cl100k"]
    assert (len(gpt2), len(cl100k)) == (50257, 100277)
    assert gpt2.decode(gpt2.encode("the cat").tolist()) == ["the", "Ġcat"]
    assert cl100k.decode(cl100k.encode("the cat").tolist()) == ["the", " cat"]
    assert cl100k.tokens[100257] == "<|endoftext|>"
    assert cl100k.tokens[100256] == "<id 100256>"
    assert cl100k.tokens[255 - 33 - 34] != ""
    for vocabulary in vocabularies.values():
        assert len(set(vocabulary.tokens)) == len(vocabulary)


def test_a_saved_vocabulary_needs_no_file(vocabularies, tmp_path):
    for vocabulary in vocabularies.values():
        record = json.loads(json.dumps(vocabulary.to_record()))
        again = at.Vocabulary.from_record(record)
        assert again == vocabulary
        assert again.encode("a new text").tolist() == vocabulary.encode("a new text").tolist()


def test_a_run_keeps_its_tokenizer(files, tmp_path):
    (tmp_path / "story.txt").write_text("the wind saw the lamp and the wind saw the wind\n" * 3)
    automaton = at.learn(tmp_path / "story.txt", tokenizer=str(files["gpt2"]), window=8, out=tmp_path / "run")
    loaded = at.Automaton.load(tmp_path / "run")
    assert loaded.vocabulary == automaton.vocabulary
    assert loaded.predict_proba(" wind saw the").tolist() == automaton.predict_proba(" wind saw the").tolist()


def test_patterns_are_those_of_the_library(monkeypatch):
    monkeypatch.setattr(tiktoken_ext.openai_public, "load_tiktoken_bpe", lambda *_, **__: {})
    for name, scheme in SCHEMES.items():
        known = tiktoken_ext.openai_public.ENCODING_CONSTRUCTORS[name]()
        assert (known["pat_str"], known["special_tokens"]) == (scheme.pattern, scheme.special)
        assert known.get("explicit_n_vocab", scheme.n_ranks + 1) == scheme.n_ranks + 1


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_bytes_and_characters(text):
    vocabulary, ids = at.Vocabulary.from_text(text, "byte")
    assert bytes(ids.tolist()) == text.encode()
    assert len(vocabulary) == len(set(vocabulary.tokens)) == 256
    assert vocabulary.lookup(vocabulary.decode(ids.tolist())).tolist() == ids.tolist()
    vocabulary, ids = at.Vocabulary.from_text(text, "character")
    assert "".join(vocabulary.decode(ids.tolist())) == text
    assert vocabulary.tokens == tuple(dict.fromkeys(text))


def test_truncation_and_padding_of_a_file_are_not_applied(files, tmp_path):
    cut = tokenizers.Tokenizer.from_file(str(files["gpt2"]))
    cut.enable_truncation(3)
    cut.enable_padding(length=50)
    cut.save(str(tmp_path / "cut.json"))
    assert len(at.Vocabulary.fixed(str(tmp_path / "cut.json")).encode("one two three four five")) == 5


def test_bad_tokenizer_files_are_named(files, tmp_path):
    ranks = files["cl100k"].read_text()
    for name, content, error, message in (
        ("missing.json", None, UnreadableSource, r"missing\.json cannot be read: No such file"),
        ("empty.json", "", UnreadableSource, r"empty\.json: not a tokenizer\.json .*use another"),
        ("other.json", "{}", UnreadableSource, r"other\.json: not a tokenizer\.json"),
        (
            "strange.tiktoken",
            ranks,
            UnsupportedOption,
            "named 'strange'; rename the file to one of cl100k",
        ),
        ("cl100k_base.tiktoken", ranks[:-20], UnreadableSource, r"cl100k_base\.tiktoken: .*download"),
        ("r50k_base.tiktoken", ranks, UnreadableSource, "not below 50,258; download"),
        ("o200k_base.tiktoken", "x y z\n", UnreadableSource, "line 1 is not a token in base64 with its rank"),
        ("p50k_base.tiktoken", "IQ== 0\n", UnreadableSource, "some single byte has no rank"),
    ):
        if content is not None:
            (tmp_path / name).write_text(content)
        with pytest.raises(error, match=message):
            at.Vocabulary.fixed(str(tmp_path / name))
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UnreadableSource, match="is not UTF-8"):
        at.Vocabulary.fixed(str(tmp_path / "binary.json"))
    dropping = tokenizers.Tokenizer(tokenizers.models.BPE({"a": 0}, [], dropout=0.5))
    dropping.save(str(tmp_path / "dropping.json"))
    with pytest.raises(UnsupportedOption, match="drops merges at random"):
        at.Vocabulary.fixed(str(tmp_path / "dropping.json"))


def test_words_outside_the_vocabulary_are_named():
    vocabulary = read_corpus(["a b"]).vocabulary
    with pytest.raises(UnknownToken, match="not in the vocabulary of 2 tokens: 'x', 'y'; check"):
        vocabulary.encode("x a y")


WITHOUT = """
import sys
for name in ("tokenizers", "tiktoken", "fsspec"):
    sys.modules[name] = None
from attomaton.corpora.readers import read_corpus
from attomaton.base.errors import MissingExtra
for source, tokenizer in ((["a"], sys.argv[1]), (["a"], sys.argv[2]), ("memory://a.txt", "word")):
    try:
        read_corpus(source, tokenizer=tokenizer)
    except MissingExtra as error:
        print(error)
"""


def test_missing_libraries_are_named_with_the_command_that_installs_them(files):
    command = [sys.executable, "-c", WITHOUT, str(files["gpt2"]), str(files["cl100k"])]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line.split(": ")[1] for line in lines] == ["pip install 'attomaton[hf]'"] * 3
    assert [name in line for name, line in zip(("tokenizers", "tiktoken", "fsspec"), lines, strict=True)] == [
        True
    ] * 3


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@given(st.text(st.characters(codec="utf-8")))
def test_joined_tokens_are_split_as_before(tokenizer, text):
    split, join = TOKENIZERS[tokenizer]
    tokens = split(text)
    assert split(join(tokens)) == tokens


@pytest.mark.parametrize(
    ("tokenizer", "tokens"),
    [
        ("word", ["Don't", "Stop:", "GET", "/A_b", "<eos>", "É", "नमस्ते।"]),
        ("word-lower", ["don't", "stop:", "get", "/a_b", "<eos>", "é", "नमस्ते।"]),
        ("word-punct", ["don't", "stop", ":", "get", "/", "a_b", "<eos>", "é", "नमस्ते", "।"]),
    ],
)
def test_word_tokenizers_are_saved_loaded_and_decoded(tmp_path, tokenizer, tokens):
    text = "Don't Stop: GET /A_b\nÉ नमस्ते।"
    assert TOKENIZERS[tokenizer].split(text) == tokens
    learned = at.learn([f"{text} {text}"], tokenizer=tokenizer, window=12, out=tmp_path / "run")
    loaded = at.Automaton.load(tmp_path / "run")
    assert loaded.vocabulary == learned.vocabulary
    assert loaded.vocabulary.tokenizer == tokenizer
    assert loaded.vocabulary.decode(loaded.vocabulary.encode(text)) == tokens
    made = tokenize_corpus([f"{text} {text}"], tmp_path / "tokens", tokenizer=tokenizer)
    assert made.vocabulary == learned.vocabulary
    assert at.learn(tmp_path / "tokens", window=12).coverage == learned.coverage


def test_words_that_a_vocabulary_lacks_are_numbered_after_it():
    vocabulary, _ = at.Vocabulary.from_text("a rose is a rose")
    ids, unknown = vocabulary.encode_open("a red rose")
    assert (ids.tolist(), unknown, vocabulary.join(ids, unknown)) == ([0, 3, 1], ("red",), "a red rose")


def test_a_vocabulary_is_restored_from_its_record():
    vocabulary, _ = at.Vocabulary.from_text("a rose is a rose")
    assert at.Vocabulary.from_record(vocabulary.to_record()) == vocabulary


def test_only_some_tokenizers_have_a_vocabulary_before_a_text():
    assert len(at.Vocabulary.fixed("byte")) == 256
    assert at.Vocabulary.fixed("word") is None
