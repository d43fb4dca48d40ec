"""Arrays, names and numbers where objects are expected; anything else is an error that says what is."""

import json

import numpy as np
import pytest

import attomaton as at
from attomaton.theories.scansnap.law import Rates
from attomaton.theories.scansnap.survey import survey_samples
from attomaton.training.models.embeddings import EmbeddingTable, Orthonormal
from attomaton.training.models.heads import Tied
from attomaton.training.models.losses import SquaredLoss
from tests.cli.inside import run_inside

SAMPLES = at.Samples.from_lists([[0, 1, 2], [1, 0, 2]], [0, 1])
TEXTS = ["the cat sat on the mat the cat", "the dog sat on the dog", "a cat and a dog and a cat"]


def weights(model, step, **options):
    return at.train(SAMPLES, model, step, steps=20, **options).weights[-1]


def test_a_table_is_given_embeddings():
    table = np.array([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.0, 1.0]])
    expected = weights(at.AttentionModel(EmbeddingTable(table)), at.GradientDescent(0.5))
    for given in (table, table.tolist()):
        assert np.array_equal(weights(at.AttentionModel(embeddings=given), 0.5), expected)
    import torch

    tensor = torch.tensor(table, requires_grad=True)
    assert np.array_equal(weights(at.AttentionModel(embeddings=tensor), 0.5), expected)
    assert at.AttentionModel(embeddings=None).embeddings == Orthonormal()
    assert at.AttentionModel("orthonormal").embeddings == Orthonormal()


def test_names_are_parts():
    assert at.AttentionModel(loss="squared").loss == SquaredLoss()
    assert at.AttentionModel(head="Tied").head == Tied()
    assert at.AttentionModel(head="token_id") == at.AttentionModel()


def test_a_number_is_a_step_size():
    model = at.AttentionModel("orthonormal")
    expected = weights(model, at.GradientDescent(0.5))
    assert np.array_equal(weights(model, 0.5), expected)
    assert np.array_equal(weights(model, np.float32(0.5)), expected)
    assert np.array_equal(weights(model, None, step_size=0.5), expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: at.AttentionModel(embeddings="random"), "embeddings is 'random'; give a table"),
        (lambda: at.AttentionModel(embeddings=np.ones(3)), r"embeddings is of shape \(3,\); give a table"),
        (lambda: at.AttentionModel(embeddings=[["a", "b"]]), "embeddings are not numbers"),
        (lambda: at.AttentionModel(embeddings=np.full((2, 2), np.nan)), "token 0 is not finite"),
        (lambda: at.AttentionModel(embeddings=Orthonormal), "give a table with one row per token"),
        (lambda: at.AttentionModel(loss="hinge"), "loss is 'hinge'; give one of 'log', 'squared', 'corr"),
        (lambda: at.AttentionModel(loss=SquaredLoss), "loss is SquaredLoss; give one of 'log'"),
        (lambda: at.AttentionModel(head=3), "head is 3; give one of 'token-id', 'tied', 'untied'"),
        (lambda: at.AttentionModel(loss=None), "loss is None; give one of"),
        (lambda: weights(at.AttentionModel(), "adam"), "step is 'adam'; give a step size such as 0.5"),
        (lambda: weights(at.AttentionModel(), None), "step is None; give a step size"),
        (lambda: weights(at.AttentionModel(), -1.0), "step_size is -1.0; give a finite number above 0"),
        (lambda: weights(at.AttentionModel(), True), "step_size is True"),
        (lambda: weights(at.AttentionModel(), 0.5, step_size=0.5), "step and step_size exclude each other"),
        (lambda: weights(np.eye(3), 0.5), "give AttentionModel"),
        (lambda: at.train("nowhere at all", at.AttentionModel(), 0.5, steps=1), "if this is the text itself"),
    ],
)  # fmt: skip
def test_what_is_none_of_these_is_refused_with_what_is_expected(call, message):
    with pytest.raises(at.AttomatonError, match=message):
        call()


def test_an_unknown_parameter_is_no_option():
    with pytest.raises(TypeError, match="unexpected keyword argument 'epochs'"):
        at.train(SAMPLES, at.AttentionModel(), 0.5, steps=1, epochs=3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'epochs'"):
        at.learn(TEXTS).score(TEXTS, epochs=3)


def test_train_and_the_survey_take_what_learn_takes(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("n,say\n" + "".join(f"{n},{text}\n" for n, text in enumerate(TEXTS)))
    samples = at.read_corpus(TEXTS).windows(4)
    model = at.AttentionModel("orthonormal")
    trained = at.train(path, model, 0.5, steps=5, reading=at.Reading(column="say"), window=4)
    assert np.array_equal(trained.weights, at.train(samples, model, 0.5, steps=5).weights)
    rates = Rates(decoder=1.0, attention=0.1)
    told = survey_samples(path, rates, reading=at.Reading(column="say"), window=4)
    assert repr(told.forecasts) == repr(survey_samples(samples, rates).forecasts)


def test_score_reads_a_file_in_the_vocabulary_of_the_automaton(tmp_path):
    automaton = at.learn(TEXTS, window=4)
    new = ["so the cat sat on the mat so", "the dog and the bird and the bird"]
    known = automaton.vocabulary.ids
    documents = [[known.setdefault(token, len(known)) for token in text.split()] for text in new]
    expected = automaton.score(at.read_corpus(documents).windows(4), epsilon=0.1)
    path = tmp_path / "new.jsonl"
    path.write_text("".join(json.dumps({"say": text}) + "\n" for text in new))
    (tmp_path / "one.txt").write_text(new[0])
    automaton = at.learn(TEXTS, window=4)
    for source in (new, at.read_corpus(new), [text.split() for text in new]):
        assert automaton.score(source, epsilon=0.1) == expected
    assert automaton.score(path, reading=at.Reading(column="say"), epsilon=0.1) == expected
    assert automaton.score(str(tmp_path / "one.txt"), epsilon=0.1) == automaton.score(new[:1], epsilon=0.1)
    run = automaton.save(tmp_path / "saved")
    assert at.Automaton.load(run).window is None  # no corpus was named
    at.learn(TEXTS, window=4, out=tmp_path / "run")
    loaded = at.Automaton.load(tmp_path / "run")
    assert loaded.window == 4
    assert loaded.score(path, reading=at.Reading(column="say"), epsilon=0.1) == expected
    with pytest.raises(at.AttomatonError, match="leave tokenizer out"):
        automaton.score(new, tokenizer="character")
    with pytest.raises(at.AttomatonError, match="have the tokenizer character"):
        automaton.score(at.read_corpus(new, tokenizer="character"))
    with pytest.raises(at.AttomatonError, match="the automaton was learned from token ids"):
        at.learn([0, 1, 0, 2, 0, 1]).score(new)
    with pytest.raises(at.AttomatonError, match="no sample has its label in its context"):
        automaton.score(["one two three"])


def test_diff_takes_runs_and_corpora(tmp_path):
    other = [*TEXTS[:2], "a dog and a cat and a dog"]
    (tmp_path / "a.json").write_text(json.dumps(TEXTS))
    (tmp_path / "b.json").write_text(json.dumps(other))
    a = at.learn(TEXTS, window=4, tokenizer="word-punct", out=tmp_path / "run")
    expected = at.diff(a, at.learn(other, window=4, tokenizer="word-punct"))
    assert len(expected)
    told = at.diff(tmp_path / "run", tmp_path / "b.json")  # with the window and the tokenizer of the run
    assert told.describe(at.automaton.compare.Change.REVERSED, 9) == expected.describe(
        at.automaton.compare.Change.REVERSED, 9
    )
    assert len(told) == len(expected)
    assert len(at.diff(TEXTS, other, window=4)) == len(expected)
    for given in (("run", "b.json"), ("a.json", "b.json", "--window=4"), ("run", "b.json", "--window=4")):
        ended = run_inside("diff", *given, "--json", cwd=tmp_path)
        assert ended.returncode == 0, ended.stderr
        assert json.loads(ended.stdout)["different"] == len(expected)
    same = run_inside("diff", "run", "a.json", "--quiet", cwd=tmp_path)
    assert same.stdout.strip() == "0"


def test_a_run_is_no_corpus(tmp_path):
    at.learn(TEXTS, out=tmp_path / "run")
    for read in (at.learn, at.read_corpus):
        with pytest.raises(at.AttomatonError, match="is a run folder"):
            read(tmp_path / "run")


def test_documents_are_tokenised_with_their_vocabulary(tmp_path):
    read = at.read_corpus(TEXTS, tokenizer="word-punct")
    made = at.tokenize_corpus(read, tmp_path / "tokens")
    assert made.vocabulary == read.vocabulary
    again = made.documents()
    assert np.array_equal(again.ids, read.ids)
    assert np.array_equal(again.offsets, read.offsets)
    assert at.learn(made, window=4).coverage.n_edges == at.learn(read, window=4).coverage.n_edges
