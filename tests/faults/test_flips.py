"""One flipped bit in anything on disk: the same answer, or a named error; never another answer."""

import os
import random
import shutil
from unittest.mock import patch

import numpy as np
import pytest

import attomaton as at
from attomaton.automaton.runs import stored
from attomaton.report.page.training import read_training, read_verdict_records
from attomaton.training.checkpoints import Store, read_trace
from tests.cli.inside import run_inside
from tests.faults.counts import trials
from tests.sizes import some

TEXT = "a b a c a b c a b b a c d a b\n" * 6


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run with a training and verdicts, an unfinished training, and a tokenised corpus."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "text.txt").write_text(TEXT)
    auto = at.learn(folder / "text.txt", window=5, out=folder / "run")
    train(auto, folder / "run")
    run_inside("verify", folder / "run", "--quiet", cwd=folder)
    assert (folder / "run" / "verdicts.json").exists()
    at.tokenize_corpus(folder / "text.txt", folder / "tokens")
    with pytest.raises(KeyboardInterrupt):
        train(auto, folder / "cut", stop=True)
    return folder, auto


def train(auto, out, *, stop=False):
    def callback(step, losses):
        if stop and step >= 30:
            raise KeyboardInterrupt

    from attomaton.training.loop import Watch

    model, step = at.AttentionModel(), at.GradientDescent(1.0)
    store = Store(out, resume=True, every=5)
    return at.train(auto.samples, model, step, steps=40, watch=Watch([callback], every=4), out=store)


def ask_run(folder, _):
    auto = at.Automaton.load(folder)
    told = [auto.predict_proba(context).tobytes() for context in ("a b a", "c a", "d")]
    proofs = repr((auto.hard.certificate, auto.soft.certificate, auto.coverage.to_dict()))
    return told, proofs, repr(read_verdict_records(folder)), repr(read_training(folder)), auto.vocabulary


def ask_opened(folder, _):
    """What is asked of the run is read from its parts, one query after the other."""
    with patch.object(stored, "SMALL_RUN_BYTES", 0):
        auto = at.Automaton.load(folder)
        contexts = ("a b a", "c a", "d", "a d c b")
        told = [auto.predict_proba(context).tobytes() for context in contexts]
        told += [repr(auto.explain(context).to_dict(auto.name)) for context in contexts]
        told += [repr([part.components.nodes.to_pydict() for part in auto.partitions()])]
        assert "solved" not in vars(auto)
        return told, repr(auto.coverage.to_dict()), auto.vocabulary


def ask_trace(folder, _):
    trace = read_trace(folder)
    return trace.weights.tobytes(), trace.losses.tobytes(), repr(trace.about)


def ask_training(folder, auto):
    trace = train(auto, folder)
    return trace.weights.tobytes(), trace.losses.tobytes()


def ask_tokens(folder, _):
    auto = at.learn(folder, window=5, engine="memory")
    edges = auto.components.edges
    return [
        np.asarray(edges[name]).tobytes() for name in ("query", "winner", "loser", "support")
    ], auto.vocabulary


def ask_documents(folder, _):
    documents = at.read_corpus(folder)
    return documents.ids.tobytes(), documents.offsets.tobytes()


def ask_duckdb(folder, _):
    auto = at.learn(folder, window=5, engine=at.engines.Engine("duckdb", threads=1, memory="1GB"))
    return auto.components.edges["support"].tobytes(), auto.vocabulary


CASES = [
    ("run", ask_run, 120),
    ("run", ask_opened, 120),
    ("run", ask_trace, 40),
    ("run", ask_training, 40),
    ("cut", ask_training, 60),
    ("tokens", ask_tokens, 60),
    ("tokens", ask_documents, 60),
    ("tokens", ask_duckdb, 12),
]


@pytest.mark.parametrize(
    ("kind", "ask", "few"),
    some(CASES, gate=CASES[:1]),
    ids=[f"{kind}-{ask.__name__}" for kind, ask, _ in CASES],
)
def test_a_flipped_bit_changes_no_answer(whole, tmp_path, kind, ask, few):
    folder, auto = whole
    rng = random.Random(int(os.environ.get("ATTOMATON_SEED", "0")))  # noqa: S311
    place = tmp_path / kind
    shutil.copytree(folder / kind, place)
    expected = ask(place, auto)
    shutil.rmtree(place)
    refused = 0
    for number in range(trials(few)):
        shutil.copytree(folder / kind, place)
        files = sorted(path for path in place.rglob("*") if path.is_file())
        path = rng.choice(files)
        blob = bytearray(path.read_bytes())
        where, bit = rng.randrange(len(blob)), rng.randrange(8)
        blob[where] ^= 1 << bit
        path.write_bytes(blob)
        try:
            assert ask(place, auto) == expected, (number, path.relative_to(place), where, bit)
        except at.AttomatonError:
            refused += 1
        shutil.rmtree(place)
    assert refused
