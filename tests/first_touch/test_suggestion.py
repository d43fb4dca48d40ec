"""The command that ``learn`` suggests runs, and answers for the query of the context it was made from."""

import json
import shlex

import pytest
from typer.testing import CliRunner

import attomaton as at
from attomaton.automaton.suggestion import suggest_context
from attomaton.cli import app
from attomaton.corpora.tokenizers.encoders import TOKENIZERS

CORPORA = {
    "story": None,
    "log": "12:01 GET /index.html 200\n12:02 GET /a.png 404\n12:03 GET /index.html 200\n" * 6,
    "umlauts": "Die Köchin grüßt den Bäcker, der Bäcker grüßt die Köchin – »schön«, sagt die Köchin.\n" * 6,
    "quotes": "it's \"the\" cat's $HOME `x` \\ and it's \"the\" dog's $HOME `y` ; | & !\n" * 8,
}
REAL = {"gpt2": "gpt2/tokenizer.json", "cl100k": "cl100k/cl100k_base.tiktoken"}


def call(*words):
    return CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)


@pytest.fixture(params=CORPORA)
def corpus(request, tmp_path):
    path = tmp_path / f"{request.param}.txt"
    if CORPORA[request.param] is None:
        call("example", path, "--quiet")
    else:
        path.write_text(CORPORA[request.param])
    return path


def check_suggestion(corpus, out, *options):
    """Run ``learn``, then what it suggests; the query is the last token of the context that was meant."""
    printed = call("learn", corpus, "--window", 24, "--out", out, *options)
    assert printed.exit_code == 0
    words = shlex.split(printed.stdout.partition("Try:\n")[2])
    assert words[:2] == ["attomaton", "explain"]
    automaton = at.Automaton.load(out)
    told = call(*words[1:], "--json")
    assert told.exit_code == 0, (words, told.output)
    meant = suggest_context(at.learn(corpus, window=24, **learned_as(options)))
    assert words[3] == meant
    assert json.loads(told.stdout)["query"] == automaton.name(int(automaton.vocabulary.encode(meant)[-1]))
    assert json.loads(told.stdout)["unknown"] == []


def learned_as(options):
    return {"tokenizer": str(options[1])} if options else {}


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_the_suggested_command_answers(corpus, tokenizer, tmp_path):
    check_suggestion(corpus, tmp_path / "run", "--tokenizer", tokenizer)


@pytest.mark.slow  # real tokenizers
@pytest.mark.parametrize("tokenizer", REAL)
def test_with_real_tokenizers_too(corpus, tokenizer, tmp_path, wikitext):
    check_suggestion(
        corpus, tmp_path / "run", "--tokenizer", wikitext.parent / "tokenizers" / REAL[tokenizer]
    )


def test_ids_are_suggested_as_ids(corpus, tmp_path):
    ids = at.read_corpus(corpus, tokenizer="character").ids
    at.learn([ids.tolist()], window=24, out=tmp_path / "run")
    meant = suggest_context(at.learn([ids.tolist()], window=24))
    told = call("explain", tmp_path / "run", meant, "--json")
    assert told.exit_code == 0
    assert json.loads(told.stdout)["query"] == meant.split()[-1]


def test_a_run_of_shards_suggests_tokens_that_compete(corpus, tmp_path):
    printed = call("learn", corpus, "--window", 24, "--engine", "duckdb", "--out", tmp_path / "run")
    words = shlex.split(printed.stdout.partition("Try:\n")[2])
    assert call(*words[1:]).exit_code == 0
