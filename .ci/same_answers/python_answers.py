"""What the Python functions answer on fixed draws, as one file for each answer: ``python … FOLDER``.

Only public names of ``attomaton`` are used, so that the same lines run in any checkout.
``.ci/same_answers`` runs it in two of them and compares the files.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import attomaton as at

STEPS = (1, 1e3, 1e6, 1e9)


def draw_samples(seed: int, *, n_tokens: int = 12, n_samples: int = 60, window: int = 5) -> at.Samples:
    """A random corpus in which ties, orders and unseen pairs all occur."""
    rng = np.random.default_rng(seed)
    contexts = [rng.integers(n_tokens, size=rng.integers(2, window + 1)).tolist() for _ in range(n_samples)]
    return at.Samples.from_lists(contexts, [int(rng.choice(one)) for one in contexts], n_tokens=n_tokens)


def draw_embeddings(seed: int, n_tokens: int, dim: int) -> Any:
    """Random unit vectors, one for each token."""
    drawn = np.random.default_rng(seed).standard_normal((n_tokens, dim))
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def answer_choices() -> Iterator[tuple[str, Any]]:
    """Fits of choices between 30 items: connected, in several components, counted, with a ridge."""
    rng = np.random.default_rng(0)
    for name, n_choices, ridge in (("connected", 2000, 0.0), ("sparse", 45, 0.0), ("ridge", 200, 0.5)):
        sets = [rng.choice(30, size=rng.integers(2, 6), replace=False).tolist() for _ in range(n_choices)]
        winners = [int(rng.choice(one)) for one in sets]
        counts = rng.integers(1, 4, n_choices).tolist() if ridge else None
        fit = at.fit_choices(winners, sets, counts=counts, ridge=ridge)
        yield (
            f"{name}.json",
            {
                "items": fit.items,
                "components": fit.components,
                "order": fit.order,
                "missing": [[one.winner, one.loser] for one in fit.missing],
                "connected": fit.connected,
            },
        )
        yield f"{name}-scores", list(fit.scores.values())
        yield f"{name}-errors", list(fit.standard_errors.values())
        yield f"{name}-direction", list(fit.direction.values())
        inside = [one for one in fit.components if len(one) > 1]
        yield f"{name}-probabilities", [fit.probability(item, one) for one in inside for item in one]
        yield f"{name}.txt", str(fit)


def answer_solutions() -> Iterator[tuple[str, Any]]:
    """Edges, components, both sides and what the automaton says, with and without embeddings."""
    for seed in range(2):
        samples = draw_samples(seed)
        for name, table in (("orthonormal", None), ("embedded", draw_embeddings(seed, 12, 16))):
            here = f"{seed}-{name}"
            edges = at.extract_edges(samples)
            hard = at.solve_graph_svm(at.find_components(edges), embeddings=table)
            soft = at.solve_luce(samples, hard.components, embeddings=table)
            auto = at.Automaton(hard.components, hard, soft)
            tables = {"edges": edges.rows, "hard": hard.scores, "soft": soft.scores}
            tables |= {"nodes": hard.components.nodes, "order": hard.components.order}
            for part, rows in tables.items():
                for column in rows.column_names:
                    yield f"{here}-{part}-{column}", rows.column(column)
            yield f"{here}-hard-weights", hard.weights
            yield f"{here}-soft-weights", soft.weights
            contexts = [list(sample.context) for sample in samples]
            yield f"{here}-probabilities", [auto.predict_proba(context) for context in contexts]
            yield f"{here}-attention", np.concatenate([auto.attention(context) for context in contexts])
            yield f"{here}-sampled", [auto.sample(one, np.random.default_rng(seed)) for one in contexts]
            yield f"{here}-explained.json", [auto.explain(one).to_dict(auto.name) for one in contexts[:20]]
            yield f"{here}-score.json", asdict(auto.score(samples))
            yield from answer_trajectories(here, samples, auto, table)


def answer_trajectories(
    name: str, samples: at.Samples, auto: at.Automaton, table: Any
) -> Iterator[tuple[str, Any]]:
    """Weights at several steps, by expansion and by fast-forward."""
    size = 0.5
    paths = {
        "expand": at.expand(auto, samples, embeddings=table, step_size=size),
        "fast-forward": at.fast_forward(samples, embeddings=table, step_size=size, to=STEPS[-1]),
    }
    for kind, path in paths.items():
        for step in STEPS:
            yield f"{name}-{kind}-{step:g}", path.weights_at(step)
        yield f"{name}-{kind}-scores", path.scores_at(STEPS[2]).column("score")
        yield f"{name}-{kind}-curves", [[path.loss_at(step), path.error_at(step)] for step in STEPS[1:]]
        yield f"{name}-{kind}.txt", f"{path!r} {path.caveat}"


def answer_new_text() -> Iterator[tuple[str, Any]]:
    """Shrunken attention and the scikit-learn estimator on contexts that were not learned."""
    samples, new = draw_samples(7, n_samples=400), draw_samples(8, n_samples=50)
    contexts = [list(sample.context) for sample in new]
    for name, strength in (("given", 0.4), ("chosen", None)):
        attention = at.shrink(samples, strength=strength)
        yield f"{name}-scores", attention.scores.column("score")
        yield f"{name}-background", attention.background
        yield f"{name}-probabilities", [attention.predict_proba(context) for context in contexts]
        yield f"{name}-attention", np.concatenate([attention.attention(context) for context in contexts])
        yield f"{name}-samples", attention.predict_samples(new).of_labels()
        yield f"{name}-rules.json", [attention.explain(context).rule.name for context in contexts]
        yield f"{name}-score.json", asdict(attention.score(new))
    rng = np.random.default_rng(9)
    rows = rng.integers(9, size=(300, 6))
    labels = rows[np.arange(300), rng.integers(6, size=300)]
    for name, table in (("orthonormal", None), ("embedded", draw_embeddings(9, 9, 12))):
        model = at.AttentionLimit(embeddings=table).fit(rows[:200], labels[:200])
        yield f"estimator-{name}-probabilities", model.predict_proba(rows[200:])
        yield f"estimator-{name}-labels", model.predict(rows[200:])
        yield f"estimator-{name}-frequencies", model.class_frequencies_


def answer_training() -> Iterator[tuple[str, Any]]:
    """Training of a few trials, what is claimed of it, and what differs between two corpora."""
    samples = draw_samples(3, n_tokens=6, n_samples=8)
    steps = {
        "plain": at.GradientDescent(0.5),
        "normalized": at.GradientDescent(0.05, normalized=True, momentum=0.5),
    }
    for name, step in steps.items():
        trace = at.train(samples, at.AttentionModel(start=1.0), step, steps=400, trials=3, seed=2)
        yield f"{name}-weights", trace.weights
        yield f"{name}-losses", trace.losses
        learned = [at.learn(samples, embeddings=table) for table in trace.embeddings]
        verdicts = at.verify(learned, trace)
        kept = [[one.claim, one.status.name, one.value, one.bound] for one in verdicts]
        yield f"{name}-verdicts.json", kept
        yield f"{name}-reasons.txt", "\n".join(one.reason for one in verdicts)
    difference = at.diff(at.learn(samples), at.learn(draw_samples(4, n_tokens=6)))
    yield "diff.json", {change.name: count for change, count in difference.counts.items()}
    for order in (at.synthetic.Blocks([3, 1, 4]), at.synthetic.Chain(5)):
        drawn = at.synthetic.corpus(order, n_samples=60, rng=np.random.default_rng(0))
        name = type(order).__name__
        yield f"{name}-values", np.concatenate([np.array(sample.context) for sample in drawn])
        yield f"{name}-labels", drawn.labels


def write(path: Path, answer: Any) -> None:
    """Texts and records as they are, everything else as an array of its numbers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".txt":
        path.write_text(answer + "\n", encoding="utf-8")
    elif path.suffix == ".json":
        path.write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")
    else:
        dense = answer.toarray() if hasattr(answer, "toarray") else answer
        dense = dense.to_numpy() if isinstance(dense, pa.ChunkedArray) else dense
        np.save(path.with_name(path.name + ".npy"), np.asarray(dense), allow_pickle=False)


def main() -> None:
    """Write all answers into the folder given."""
    folder = Path(sys.argv[1])
    parts = {
        "choices": answer_choices,
        "solutions": answer_solutions,
        "new-text": answer_new_text,
        "training": answer_training,
    }
    for part, answers in parts.items():
        for name, answer in answers():
            write(folder / part / name, answer)


if __name__ == "__main__":
    main()
