"""Both reference solvers on all queries of WikiText-2 valid+test at window 32. Bar: both certified."""

import attomaton as at
from timing import DATA, peak_gigabytes, report, timed

if __name__ == "__main__":
    parts = (DATA / "wikitext-2" / f"{part}.txt" for part in ("valid", "test"))
    _, ids = at.Vocabulary.from_text("".join(part.read_text(encoding="utf-8") for part in parts))
    samples = at.Samples.from_windows(ids, window=32)
    components = at.find_components(at.extract_edges(samples))
    hard, hard_s = timed(lambda: at.solve_graph_svm(components))
    soft, soft_s = timed(lambda: at.solve_luce(samples, components))
    report(
        {
            "components": len(components),
            "hard_s": hard_s,
            "hard_gap": hard.certificate.gap,
            "soft_s": soft_s,
            "soft_gradient": soft.certificate.gradient_norm,
            "peak_gb": peak_gigabytes(),
        },
        {"hard_certified": hard.certificate.certified, "soft_certified": soft.certificate.certified},
    )
