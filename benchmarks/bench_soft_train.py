"""The Luce model inside all components of WikiText-2 train (wikitext-2, window 32), from its counted choices.

Counted is everything after the choices are extracted: the problem, all scores, and their certificate with
curvature and error bound. Bars: certified, and under 20 seconds on two cores.
"""

import attomaton as at
from timing import DATA, median_run, peak_gigabytes, report, timed

if __name__ == "__main__":
    text = (DATA / "wikitext-2" / "train.articles-shuffled.txt").read_text(encoding="utf-8")
    samples = at.Samples.from_windows(at.Vocabulary.from_text(text)[1], window=32)
    components = at.find_components(at.extract_edges(samples))
    choices, extracting = timed(at.extract_choices, samples, components)

    def once() -> dict:
        soft, seconds = timed(lambda: at.solve_luce(choices, components))
        proof = soft.certificate
        return {
            "solve_s": seconds,
            "gradient": proof.gradient_norm,
            "curvature": proof.curvature,
            "error_bound": proof.error_bound,
            "certified": proof.certified,
        }

    sizes = components.sizes[components.sizes > 1]
    figures = {
        "components": len(sizes),
        "largest": int(sizes.max()),
        "choices": len(choices),
        **median_run(once, "solve_s", 5),
        "extract_s": extracting,
        "peak_gb": peak_gigabytes(),
    }
    report(figures, {"certified": figures["certified"], "under 20 s": figures["solve_s"] < 20})
