"""The Luce model inside all components of WikiText-2 valid+test at window 32. Bar: certified."""

import attomaton as at
from timing import median_run, peak_gigabytes, read_wikitext, report, timed

if __name__ == "__main__":
    _, ids = at.Vocabulary.from_text(read_wikitext("valid", "test"))
    samples = at.Samples.from_windows(ids, window=32)
    components = at.find_components(at.extract_edges(samples))
    choices, extracting = timed(at.extract_choices, samples, components)

    def once() -> dict:
        soft, seconds = timed(lambda: at.solve_luce(choices, components))
        return {
            "choices": len(choices),
            "solve_s": seconds,
            "gradient": soft.certificate.gradient_norm,
            "certified": soft.certificate.certified,
        }

    figures = {**median_run(once, "solve_s", 5), "extract_s": extracting, "peak_gb": peak_gigabytes()}
    report(figures, {"certified": figures["certified"]})
