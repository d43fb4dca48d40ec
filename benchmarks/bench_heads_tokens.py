"""A GPT-2-sized file (50,257 tokens, 768 wide, 144 heads) on WikiText-2's graph. Bars: 3 minutes, 4 GB.

Reading the file, token scores of every head on every (query, token) pair of the graph, the edges each obeys,
and the same for random heads with its spectrum. The file is written here, with random weights.
"""

import json
import tempfile
import time
from pathlib import Path

import numpy as np

import attomaton as at
from attomaton.heads import open_model
from attomaton_experiments.head_study.edges import measure_edges, randomise_heads
from timing import DATA, peak_gigabytes, report

CONFIG = {
    "model_type": "gpt2",
    "n_layer": 12,
    "n_head": 12,
    "n_embd": 768,
    "n_positions": 1024,
    "vocab_size": 50257,
}


def shapes() -> dict[str, tuple[int, ...]]:
    dim = CONFIG["n_embd"]
    found: dict[str, tuple[int, ...]] = {"wte.weight": (CONFIG["vocab_size"], dim), "wpe.weight": (1024, dim)}
    maps = {"attn.c_attn": (dim, 3 * dim), "attn.c_proj": (dim, dim)}
    maps |= {"mlp.c_fc": (dim, 4 * dim), "mlp.c_proj": (4 * dim, dim)}
    for layer in range(CONFIG["n_layer"]):
        for name, shape in maps.items():
            found |= {f"h.{layer}.{name}.weight": shape, f"h.{layer}.{name}.bias": shape[1:]}
        for name in ("ln_1", "ln_2"):
            found |= {f"h.{layer}.{name}.{part}": (dim,) for part in ("weight", "bias")}
    return found | {"ln_f.weight": (dim,), "ln_f.bias": (dim,)}


def write_model(folder: Path) -> None:
    """Tensor by tensor, so that the whole model is never in memory."""
    rng, place, header = np.random.default_rng(0), 0, {}
    for name, shape in shapes().items():
        size = 4 * int(np.prod(shape))
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [place, place + size]}
        place += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for shape in shapes().values():
            drawn = rng.standard_normal(shape, np.float32) * np.float32(0.02)
            file.write((drawn + (len(shape) == 1)).astype(np.float32).tobytes())
    (folder / "config.json").write_text(json.dumps(CONFIG))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder))
        begun = time.perf_counter()
        tokenizer = str(DATA / "tokenizers" / "gpt2" / "tokenizer.json")
        corpus = at.read_corpus(DATA / "wikitext-2" / "train.articles-shuffled.txt", tokenizer=tokenizer)
        samples = corpus.windows(32)
        components = at.find_components(at.extract_edges(samples))
        graph = time.perf_counter()
        model = open_model(folder)
        read = time.perf_counter()
        found = measure_edges(model, components, samples)
        own = time.perf_counter()
        drawn = randomise_heads(model, np.random.default_rng(0))
        random = measure_edges(drawn, components, samples)
        ended = time.perf_counter()
    figures = {
        "graph_s": round(graph - begun, 1),
        "read_s": round(read - graph, 2),
        "heads_s": round(own - read, 1),
        "random_s": round(ended - own, 1),
        "total_s": round(ended - begun, 1),
        "pairs": len(components.query_of_node),
        "edges": found.n_edges,
        "obeyed": [
            round(float(one), 3) for one in (found.obeyed.min(), found.obeyed.mean(), found.obeyed.max())
        ],
        "random": [round(float(one), 3) for one in (random.obeyed.mean(), random.obeyed.std())],
        "frequency": round(found.frequency, 3),
        "bigram": round(found.bigram, 3),
        "peak_gb": peak_gigabytes(),
    }
    report(figures, {"heads_under_180_s": own - graph < 180, "under_4_gb": figures["peak_gb"] < 4})


if __name__ == "__main__":
    main()
