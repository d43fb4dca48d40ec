"""When heads get their types: the course of a small model, redrawn in small."""

import json

import numpy as np
import pytest
import torch

from attomaton.base.errors import UnsupportedOption
from attomaton.base.progress import silent
from attomaton.heads import Head, open_model
from attomaton.heads.utility.measured import find_gains
from attomaton_experiments.course import run_course
from attomaton_experiments.head_course.history import History, tell_steps
from attomaton_experiments.head_course.llama import LlamaShape, SmallLlama
from attomaton_experiments.head_course.targets import TARGETS, average_at, measure_targets, target_column
from attomaton_experiments.head_course.training import CourseTraining, read_stories
from attomaton_experiments.page import write_page
from attomaton_experiments.settings import read_settings
from tests.experiments.words import WORDS

SMALL = {
    "n_tokens": 300,
    "n_documents": 24,
    "random": 1,
    "n_windows": 8,
    "n_permutations": 99,
    "held_out": 0.4,
    "shape": {"n_layers": 2, "n_heads": 2, "width": 16, "inner": 16, "longest": 48},
    "training": {"steps": 12, "batch_size": 2, "rate": 0.01, "warmup": 2, "checkpoints": 3, "first": 3},
}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    rng = np.random.default_rng(0)
    stories = [" ".join(rng.choice(WORDS, 80)) + "." for _ in range(60)]
    path = tmp_path_factory.mktemp("text") / "stories.json"
    path.write_text(json.dumps(stories))
    return path


@pytest.fixture(scope="module")
def stories(source):
    return read_stories(source, n_tokens=300, held_out=0.4, shortest=100)


@pytest.mark.slow  # an experiment
def test_the_course_goes_on_where_it_was_and_its_checkpoints_are_models(source, tmp_path):
    settings = read_settings("heads-course", data=source, trials=2, work=tmp_path / "work") | SMALL
    page = run_course(settings, silent)
    stored = {path: path.stat().st_mtime_ns for path in (tmp_path / "work").rglob("*") if path.is_file()}
    again = run_course(settings, silent)
    assert again.text == page.text
    assert {path: path.stat().st_mtime_ns for path in stored} == stored
    assert page.numbers.num_rows == 2 * 4 * 4  # seeds, checkpoints, heads
    assert {"type", "attention_induction", "utility_previous_token"} <= set(page.numbers.column_names)
    assert [one.claim for one in page.verdicts] == ["previous token before induction"]
    names = {path.name for path in write_page(page, tmp_path / "out")}
    assert {"figure.png", "numbers.parquet", "summary.md", "verdicts.json"} <= names
    assert open_model(tmp_path / "work" / "seed-1" / "checkpoint-12").shape.n_heads == 2


def test_a_checkpoint_is_a_llama_of_transformers(stories, tmp_path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed (SKIPS.md)")
    shape = LlamaShape(stories.n_tokens, **SMALL["shape"])
    training = CourseTraining(shape, **SMALL["training"] | {"steps": 4})
    losses = training.run(stories, tmp_path)
    assert losses["step"] == [0, 3, 4]
    assert losses["held_out"][-1] < losses["held_out"][0]
    place = tmp_path / "checkpoint-4"
    theirs, ours = transformers.AutoModelForCausalLM.from_pretrained(place), open_model(place)
    own = SmallLlama(shape)
    own.load_state_dict(theirs.state_dict(), strict=False)
    ids = np.random.default_rng(0).integers(0, stories.n_tokens, (2, 48))
    with torch.no_grad():
        logits, written = theirs(torch.as_tensor(ids)).logits, own(torch.as_tensor(ids))
    torch.testing.assert_close(ours.watch(ids).logits, logits, atol=1e-5, rtol=0)
    torch.testing.assert_close(written, logits, atol=1e-5, rtol=0)
    assert json.loads((place / "tokenizer.json").read_text())["model"]["type"] == "BPE"


def test_stories_held_out_are_not_trained_on(source, stories):
    assert len(stories.held_out) == 24
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(stories.tokenizer)
    texts = set(json.loads(source.read_text()))
    held = {tokenizer.decode(ids.tolist()) for ids in stories.held_out}
    trained = tokenizer.decode(stories.train.tolist(), skip_special_tokens=False).split("<end>")[:-1]
    assert held <= texts
    assert held | {text.strip() for text in trained} == texts
    assert not held & set(trained)
    with pytest.raises(UnsupportedOption, match="to hold out"):
        read_stories(source, n_tokens=300, held_out=0.0, shortest=100)


def test_training_depends_on_its_seed_alone(stories, tmp_path):
    shape = LlamaShape(stories.n_tokens, **SMALL["shape"])
    losses = []
    for number, seed in enumerate((0, 0, 1)):
        training = CourseTraining(shape, **SMALL["training"] | {"steps": 3}, seed=seed)
        losses.append(training.run(stories, tmp_path / str(number)))
        torch.rand(1)
    assert losses[0] == losses[1]
    assert losses[0] != losses[2]


def places_by_definition(name, row, query):
    """The keys at the place of one query, one by one."""
    keys = range(query)
    found = {
        "first token": [key for key in keys if key == 0],
        "previous token": [key for key in keys if key == query - 1],
        "same token": [key for key in keys if row[key] == row[query]],
        "induction": [key for key in keys if key and row[key - 1] == row[query]],
    }
    return found[name]


@pytest.mark.parametrize("name", TARGETS)
def test_places_are_what_they_are_called(name):
    tokens = np.random.default_rng(1).integers(0, 4, (5, 12))
    found = TARGETS[name](tokens)
    for row, keys in zip(tokens.tolist(), found, strict=True):
        for query in range(12):
            assert np.flatnonzero(keys[query]).tolist() == places_by_definition(name, row, query)


def test_attention_and_utility_at_places_are_means_over_queries(stories, tmp_path):
    shape = LlamaShape(stories.n_tokens, **SMALL["shape"])
    CourseTraining(shape, **SMALL["training"] | {"steps": 1, "checkpoints": 1}).run(stories, tmp_path)
    model = open_model(tmp_path / "checkpoint-1")
    windows = np.random.default_rng(0).integers(0, 9, (3, 13))
    told, heads = measure_targets(model, windows), model.shape.heads
    place, head = "induction", Head(1, 0)
    pattern = model.watch(windows[:, :-1]).patterns[1][:, 0].numpy()
    (gains,) = find_gains(model, windows, baseline="uniform", alone=False, heads=heads)
    sums, means = [], []
    for number, row in enumerate(windows[:, :-1].tolist()):
        for query in range(12):
            keys = places_by_definition(place, row, query)
            if keys:
                sums.append(pattern[number, query, keys].sum())
                means.append(gains.values[head][number, query, keys].mean())
    mine = told[heads.index(head)]
    assert mine["attention_induction"] == pytest.approx(np.mean(sums), rel=1e-5)
    assert mine["utility_induction"] == pytest.approx(np.mean(means), rel=1e-5)
    assert average_at(pattern, np.zeros((3, 12, 12), bool), total=True) == 0.0


def make_history(labels, attention, utility):
    """Records of one layer, from arrays of shape (n_seeds, n_steps, n_heads)."""
    records = []
    for (seed, at, number), label in np.ndenumerate(labels):
        record = {"seed": seed, "step": (0, 10, 100, 1000)[at], "layer": 0, "number": number, "type": label}
        for name in TARGETS:
            record[target_column("attention", name)] = attention[seed, at, number]
            record[target_column("utility", name)] = utility[seed, at, number]
        records.append(record)
    return History(records)


def test_a_history_tells_when_types_settle():
    labels = np.array([[["x", "x"], ["a", "b"], ["a", "x"], ["a", "b"]], [["a", "x"]] * 4])
    attention = np.zeros((2, 4, 2))
    attention[0, :, 1] = [0.1, 0.1, 0.5, 0.9]
    attention[1, :, 0] = [0.0, 0.0, 0.0, 1.0]
    history = make_history(labels, attention, attention)
    assert history.steps == [0, 10, 100, 1000]
    assert history.names == ["a", "b", "x"]
    assert history.count("x").tolist() == [[2, 0, 1, 0], [1, 1, 1, 1]]
    assert history.settled().tolist() == [[10, 1000], [0, 0]]
    assert history.first_settled("a").tolist() == [10, 0]
    assert np.isnan(history.first_settled("b")[1])
    rises = history.half_rise("induction")
    assert rises[0] == pytest.approx(100)
    assert rises[1] == pytest.approx(np.sqrt(101 * 1001) - 1)
    assert tell_steps(np.array([np.nan]), 9) == "never"


def test_utility_that_orders_heads_as_they_end_is_found_and_noise_is_not():
    rng = np.random.default_rng(0)
    labels = np.full((3, 4, 8), "x")
    utility, attention = rng.normal(size=(2, 3, 4, 8))
    utility[:, 1] = attention[:, -1] ** 3
    history = make_history(labels, attention, utility)
    assert history.predicted("induction", 10, within=True).tolist() == pytest.approx([1, 1, 1])
    assert history.predicted("induction", 10, within=False).tolist() == pytest.approx([1, 1, 1])
    assert history.test_predicted("induction", 10, 999, 0) == pytest.approx(1 / 1000)
    assert history.test_predicted("induction", 0, 999, 0) > 0.05


def test_p_of_utility_without_a_message_is_uniform():
    small = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        history = make_history(np.full((3, 4, 4), "x"), *rng.normal(size=(2, 3, 4, 4)))
        small += history.test_predicted("induction", 0, 59, seed) <= 0.1
    assert 8 <= small <= 34  # 20 expected
