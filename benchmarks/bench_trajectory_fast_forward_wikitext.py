"""Descent on all queries of WikiText-2 valid+test, window 32, to step 10^9. Bar: under 10 minutes."""

import attomaton as at
from timing import peak_gigabytes, read_wikitext, report, timed

TO = 1e9

if __name__ == "__main__":
    _, ids = at.Vocabulary.from_text(read_wikitext("valid", "test"))
    samples = at.Samples.from_windows(ids, window=32)
    at.fast_forward(at.Samples.from_lists([[0, 1]], [0]), to=10)  # compiles
    components = at.find_components(at.extract_edges(samples))
    trajectory, seconds = timed(lambda: at.fast_forward(samples, components=components, to=TO, rtol=1e-3))
    hard = at.solve_graph_svm(components)
    curves = trajectory.curves([1e5, 1e6, 1e7, 1e8, 1e9], hard.weights).to_pydict()
    figures = {
        "queries": len(components.queries),
        "scores": trajectory.loss.pairs.num_rows,
        "seconds": seconds,
        "curves": {name: [float(f"{value:.4g}") for value in values] for name, values in curves.items()},
        "peak_gb": peak_gigabytes(),
    }
    report(figures, {"seconds": seconds < 600})
