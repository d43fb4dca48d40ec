"""find_components on a chain of 1,000,000 nodes and a random graph of 10,000,000 edges. Bar: 20 s each."""

import numpy as np

from attomaton import find_components
from attomaton.graphs import EdgeTable
from attomaton.graphs.edges import make_edges, pack_edges
from attomaton.graphs.grouping import count_keys
from timing import median_run, report, timed

N_TOKENS = 1_000_000


def graph(winner: np.ndarray, loser: np.ndarray) -> EdgeTable:
    keys, support = count_keys(pack_edges(np.full(len(winner), N_TOKENS - 1), winner, loser))
    one = np.ones(1, np.int64)
    return make_edges(N_TOKENS, keys, support, one * (N_TOKENS - 1), one, one - 1)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    steps = np.arange(N_TOKENS - 1)
    pairs = np.unique(rng.integers(0, N_TOKENS**2, 10_001_000))
    pairs = pairs[pairs // N_TOKENS != pairs % N_TOKENS][:10_000_000]
    chain, random = graph(steps, steps + 1), graph(pairs // N_TOKENS, pairs % N_TOKENS)

    def once() -> dict:
        of_chain, chain_s = timed(find_components, chain)
        of_random, random_s = timed(find_components, random)
        return {
            "chain_nodes": of_chain.nodes.num_rows,
            "chain_components": len(of_chain),
            "chain_s": chain_s,
            "random_edges": len(random),
            "random_components": len(of_random),
            "random_s": random_s,
        }

    figures = median_run(once, "random_s", 5)
    report(
        figures, {"chain_under_20_s": figures["chain_s"] < 20, "random_under_20_s": figures["random_s"] < 20}
    )
