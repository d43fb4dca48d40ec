"""Whether what an audit calls next-token seeking is there: built heads, random weights, a trained model.

1. Independent tokens, in which nothing can be sought, and six kinds of built heads, 20 audits each. Bar: in
   at most 8 % of all audits any head holds, with random heads and without.
2. The same text and a built head with .1 of its mass on the label, 20 audits. Bar: it holds in 95 % of them.
3. 400 random heads that read the trained stream of stories260K, and as many of a random model of 12 layers,
   each draw held against others. Bar: at most 8 % have |z| > 2.
4. stories260K itself, held against ten draws, and two models with permuted weights. Bar: six heads of layer 4
   hold and no permuted head does.
5. Every rung of the ladder as in 3. Bar: the same.
6. The edges of the stories and of the same stories shuffled: which share frequency obeys (of the shuffled
   ones .92 in a study made before), and which the heads do.

With --quick 5 and 6 are left out. With --work FOLDER what was measured of a model is kept there, and a run
that was stopped is resumed.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.heads import (
    AuditSettings,
    Position,
    audit_heads,
    climb,
    permute_weights,
    rotate_beside,
    rotate_heads,
    seek_labels,
)
from attomaton.heads.audit.explanations import TokenCounts
from attomaton.heads.audit.jackknife import Estimates, above_null
from attomaton.heads.audit.ladder import Ladder
from attomaton.heads.audit.recording import record
from attomaton.heads.audit.rows import Rows
from attomaton.heads.audit.seeking import Seeking
from attomaton.heads.model import HeadModel
from attomaton_experiments.head_study.edges import ObeyedEdges
from attomaton_experiments.head_study.shuffled import compare_shuffled
from stories import make_rungs, open_stories, read_stories
from timing import peak_gigabytes, report

sys.path.insert(0, str(Path(__file__).parents[1]))  # the built heads of the tests

from tests.heads.audit.built import KINDS, Seeker, build_heads, draw_chains, draw_deep, draw_text

COUNTED, FITTED, SCORED = slice(0, 750), slice(500, 750), slice(750, None)
AUDITS = 20
"""Audits of each kind of built heads."""
N_RANDOM, N_PERMUTED, N_DEEP = 10, 2, 5
HELD_AGAINST = (9, 4, 2, 1)
"""How many other draws a draw of random heads is held against; an audit's own default is 2."""
PARTS = ("mass", "over_profile", "excess")
EVERY = 8
"""Of the rows of next-token seeking, one in so many is climbed."""
HOW = AuditSettings(window=16)


Make = Callable[[], HeadModel]


def audit_built() -> tuple[dict[str, int], dict[str, int], dict[str, int], int]:
    """Audits in which any head holds, by kind: with random heads, without, and if z over documents decided.

    Last, in how many audits the head that seeks is found.
    """
    (held, without, over_documents), found = (dict.fromkeys(KINDS, 0) for _ in range(3)), 0
    for seed in range(AUDITS):
        for number, kind in enumerate(KINDS):
            rng = np.random.default_rng([number, seed])
            model, documents = build_heads(kind, rng), draw_text(rng)
            seeking = audit_heads(model, documents, rungs=(Position(),), settings=HOW).seeking
            held[kind] += int(seeking.holds.any())
            over_documents[kind] += int(above_null(seeking.excess.z).any())
            without[kind] += int(replace(seeking, null=None).holds.any())
        rng = np.random.default_rng([len(KINDS), seed])
        model, documents = build_heads("random", rng), draw_text(rng)
        random = [rotate_beside(model, seed=one) for one in range(2)]
        watched = Seeker(model, HOW.window)
        seeking = audit_heads(watched, documents, rungs=(Position(),), random=random, settings=HOW).seeking
        found += int(seeking.holds[0])
    return held, without, over_documents, found


def seek_deep() -> dict[str, float]:
    """The share of random heads beyond 2 in a random model of 12 layers, by how many draws are behind z."""
    rng = np.random.default_rng(0)
    model, documents = draw_deep(rng), draw_chains(rng)
    counts, found = TokenCounts.of(documents[:24], n_tokens=40), []
    for seed in range(N_DEEP):
        rows = record(rotate_beside(model, seed=seed), documents, window=16).rows
        found.append(seek_labels(rows.take(rows.documents < 24), rows.take(rows.documents >= 24), counts))
    return {f"against_{many}": beyond_two(found, many) for many in (4, 2, 1)}


def beyond_two(random: Sequence[Seeking] | Sequence[Ladder], many: int) -> Any:
    """The share of random heads with |z| > 2, each draw held against the next ``many``; ladders: by rung."""
    z = [
        one.against([*random[at + 1 :], *random[:at]][:many]).z  # type: ignore[arg-type]
        for at, one in enumerate(random)
    ]
    return np.round(np.mean(np.abs(z) > 2, axis=(0, -1)), 4).tolist()


class Bench:
    """The stories, the model, and what was measured of it and of random heads, kept in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.model, self.documents = folder, open_stories(), read_stories()
        self.heads = tuple(self.model.shape.heads)
        self.counts = TokenCounts.of(self.documents[COUNTED], n_tokens=self.model.shape.n_tokens)
        self.rungs: Callable[[], Any] = cache(lambda: make_rungs(self.model, self.documents[FITTED]))

    def watch(self, make: Make) -> Callable[[], list[Rows]]:
        """What watches a model once it is needed."""
        return lambda: self._watch(make())

    def seek(self, name: str, rows: Callable[[], list[Rows]]) -> Seeking:
        """Next-token seeking of a model."""

        def find() -> dict[str, Any]:
            found = seek_labels(*rows(), self.counts)
            parts = [getattr(found, part) for part in PARTS]
            sizes = np.array([found.n_rows, found.n_documents])
            return {**pack(parts), "sizes": sizes}

        kept = self._keep(f"{name}-seeking", find)
        n_rows, n_documents = kept["sizes"].tolist()
        return Seeking(self.heads, *unpack(kept), n_rows, n_documents)

    def climb(self, name: str, nested: bool, rows: Callable[[], list[Rows]]) -> Ladder:
        """A ladder of a model."""

        def find() -> dict[str, Any]:
            some = [one.take(np.arange(0, len(one), EVERY)) for one in rows()]
            found = climb(*some, self.rungs(), nested=nested, progress=tell)
            return {**pack(found.explained), "names": np.array(found.names), "scales": found.scales}

        kept = self._keep(f"{name}-{'nested' if nested else 'alone'}", find)
        shares = unpack(kept)
        added = [one.minus(shares[at - 1]) if nested and at else one for at, one in enumerate(shares)]
        names = tuple(kept["names"].tolist())
        return Ladder(self.heads, names, nested, tuple(shares), tuple(added), kept["scales"])

    def _watch(self, model: HeadModel) -> list[Rows]:
        fitted = record(model, self.documents[FITTED], per_document=60, longest=255, seed=1).rows
        return [fitted, record(model, self.documents[SCORED], per_document=100, longest=255).rows]

    def _keep(self, name: str, find: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The arrays of this name in the folder; found and written there if they are missing."""
        kept = self.folder / f"{name}.npz"
        if not kept.exists():
            begun = time.process_time()
            draft = kept.with_name(f"draft-{kept.name}")
            np.savez(draft, **find())
            draft.rename(kept)
            print(f"{name}: {time.process_time() - begun:.0f} processor seconds", file=sys.stderr, flush=True)
        with np.load(kept, allow_pickle=False) as arrays:
            return dict(arrays)


def tell(done: int, total: int) -> None:
    if done % 10 == 0:
        print(f"  {done} of {total} heads", file=sys.stderr, flush=True)


def pack(told: Sequence[Estimates]) -> dict[str, Any]:
    """Estimates as arrays."""
    return {name: np.array([getattr(one, name) for one in told]) for name in ("value", "without")}


def unpack(kept: dict[str, Any]) -> list[Estimates]:
    """The same again."""
    return [Estimates(*one) for one in zip(kept["value"], kept["without"], strict=True)]


def tell_edges(found: ObeyedEdges) -> dict[str, Any]:
    """Which share of edges the heads obey, beside what needs no model."""
    own = (found.obeyed.min(), found.obeyed.mean(), found.obeyed.max())
    random = (found.random.mean(), found.random.std())
    return {
        "heads": [round(float(one), 3) for one in own],
        "random": [round(float(one), 3) for one in random],
        "frequency": round(found.frequency, 3),
        "bigram": round(found.bigram, 3),
    }


def seek_stories(bench: Bench, random: list[Any]) -> tuple[dict[str, Any], dict[str, bool]]:
    """Next-token seeking of the model, of random heads beside its own, and of permuted weights."""
    model = bench.model
    drawn = [bench.seek(f"intact-{seed}", rows) for seed, rows in enumerate(random)]
    own = bench.seek("own", bench.watch(lambda: model)).against(drawn)
    permuted = [
        bench.seek(f"permuted-{seed}", bench.watch(lambda seed=seed: permute_weights(model, seed=seed)))
        for seed in range(N_PERMUTED)
    ]
    kin = [one.against(drawn) for one in permuted]
    shares = {f"against_{many}": beyond_two(drawn, many) for many in HELD_AGAINST}
    layers = np.array([head.layer for head in own.heads])
    spread = [np.std([one.excess.value[layers == layer] for one in drawn], ddof=1) for layer in range(5)]
    figures = {
        "rows": own.n_rows,
        "random_heads": sum(len(one.heads) for one in drawn),
        "random_heads_beyond_2": shares,
        "random_heads_beyond_2_over_documents": round(
            float(np.mean([np.abs(one.z) > 2 for one in drawn])), 4
        ),
        "random_heads_deviation_by_layer": [round(float(one), 5) for one in spread],
        "z": {str(head): round(float(z), 1) for head, z in zip(own.heads, own.z, strict=True) if z > 2},
        "holds": [str(head) for head, holds in zip(own.heads, own.holds, strict=True) if holds],
        "holds_against_2": [
            [str(head) for head, holds in zip(own.heads, held, strict=True) if holds]
            for held in (own.against(drawn[at : at + 2]).holds for at in range(0, N_RANDOM, 2))
        ],
        "permuted_largest_z": [round(float(one.z.max()), 1) for one in kin],
        "permuted_hold": [int(one.holds.sum()) for one in kin],
    }
    bars = {f"beyond_2_{name}": share <= 0.08 for name, share in shares.items()}
    bars["six_heads_of_layer_4_hold"] = int(own.holds[layers == 4].sum()) >= 6
    bars["no_permuted_head_holds"] = not any(one.holds.any() for one in kin)
    return figures, bars


def climb_stories(bench: Bench, random: list[Any]) -> tuple[dict[str, Any], dict[str, bool]]:
    """Every rung of random heads beside the model's own, and where rungs hold for the model."""
    figures: dict[str, Any] = {"ladders_beyond_2": {}}
    worst = 0.0
    for nested in (True, False):
        drawn = [bench.climb(f"intact-{seed}", nested, rows) for seed, rows in enumerate(random)]
        for many in HELD_AGAINST:
            shares = dict(zip(drawn[0].names, beyond_two(drawn, many), strict=True))
            figures["ladders_beyond_2"][f"{'nested' if nested else 'alone'}_against_{many}"] = shares
            worst = max(worst, *shares.values())
        if nested:
            own = bench.climb("own", True, bench.watch(lambda: bench.model)).against(drawn)
            figures["rung_holds"] = dict(zip(own.names, own.holds.sum(1).tolist(), strict=True))
    return figures, {"ladders_beyond_2": worst <= 0.08}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, help="folder in which measured models are kept")
    parser.add_argument("--check", action="store_true", help="end with 1 if a bar is missed")
    parser.add_argument("--quick", action="store_true", help="leave out the ladders and the edges")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as passing:
        folder = Path(passing) if asked.work is None else asked.work
        folder.mkdir(parents=True, exist_ok=True)
        measure_all(Bench(folder), asked)


def measure_all(bench: Bench, asked: argparse.Namespace) -> None:
    model, n = bench.model, AUDITS * len(KINDS)
    held, without, over_documents, found = audit_built()
    deep = seek_deep()
    random = [
        bench.watch(lambda seed=seed: rotate_beside(model, seed=seed)) for seed in range(N_RANDOM)
    ]  # each is watched once it is needed
    figures, bars = seek_stories(bench, random)
    figures = {
        "independent_audits_that_hold": held,
        "independent_audits_that_hold_without_random_heads": without,
        "independent_audits_that_would_over_documents": over_documents,
        "seekers_found": found / AUDITS,
        "deep_random_heads_beyond_2": deep,
        **figures,
    }
    bars["independent_audits"] = max(sum(held.values()), sum(without.values())) <= 0.08 * n
    bars["seekers_found"] = found >= 0.95 * AUDITS
    bars |= {f"deep_beyond_2_{name}": share <= 0.08 for name, share in deep.items()}
    if not asked.quick:
        more, passed = climb_stories(bench, random)
        figures, bars = figures | more, bars | passed
        edges = compare_shuffled(model, bench.documents[COUNTED], against=rotate_heads(model, seed=0))
        figures |= {"edges": tell_edges(edges.of_text), "edges_shuffled": tell_edges(edges.shuffled)}
        bars["frequency_obeys_92_percent_of_shuffled_edges"] = abs(edges.shuffled.frequency - 0.92) < 0.01
    figures |= {"cpu_s": round(time.process_time(), 1), "peak_gb": peak_gigabytes()}
    report(figures, bars)


if __name__ == "__main__":
    main()
