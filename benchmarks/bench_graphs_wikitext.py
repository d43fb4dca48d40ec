"""Edges and components of WikiText-2 train at window 32, in memory. Bars: 60 s and 6 GB."""

from attomaton import extract_edges, find_components
from attomaton.corpora.readers.corpus import read_text
from timing import DATA, median_run, peak_gigabytes, report, timed


def once() -> dict:
    documents, reading = timed(read_text, DATA / "wikitext-2" / "train.articles-shuffled.txt")
    samples = documents.windows(32)
    edges, extracting = timed(extract_edges, samples)
    components, finding = timed(find_components, edges)
    return {
        "tokens": len(documents.ids),
        "types": len(documents.vocabulary),
        "samples": len(samples),
        "realisable": edges.n_samples,
        "queries": len(components.queries),
        "edges": len(edges),
        "nodes": components.nodes.num_rows,
        "components": len(components),
        "components_above_one": int((components.sizes > 1).sum()),
        "largest_component": int(components.sizes.max()),
        "order": components.order.num_rows,
        "read_s": reading,
        "edges_s": extracting,
        "components_s": finding,
        "total_s": round(reading + extracting + finding, 3),
    }


if __name__ == "__main__":
    figures = median_run(once, "total_s", 5)
    figures["peak_gb"] = peak_gigabytes()
    report(figures, {"under_60_s": figures["total_s"] < 60, "under_6_gb": figures["peak_gb"] < 6})
