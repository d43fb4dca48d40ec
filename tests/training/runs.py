"""A small run that tests train, kill and resume; ``python -m tests.training.runs FOLDER`` trains it."""

import sys
from dataclasses import replace

from attomaton.training.checkpoints import Store
from attomaton.training.loop import Watch, train
from attomaton.training.models.attention import AttentionModel
from attomaton.training.models.embeddings import RandomUnit
from attomaton.training.steps import Adam
from tests.drawn import paper_draw

SETTINGS = {"steps": 4000, "seed": 3}
PLAIN = Watch()


def corpora():
    return [paper_draw(seed, n_samples=5 + seed) for seed in range(3)]


def run(out=None, *, watch=PLAIN, every=7, **changed):
    """Adam on factors: all kinds of state; records and checkpoints fall on different steps."""
    model = AttentionModel(RandomUnit(8), rank=3, start=1.0)
    watch = replace(watch, every=every)
    return train(corpora(), model, Adam(0.01), out=out, watch=watch, **{**SETTINGS, **changed})


if __name__ == "__main__":
    run(Store(sys.argv[1], resume=True, every=11))
