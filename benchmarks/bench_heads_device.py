"""The cost of an audit's rows on a device, beside a plain forward pass and the same on the CPU.

A Llama of the size of SmolLM2-135M with random weights, 40 contexts of 256 tokens; then 2,048 tokens with 32
heads. Bars on the CPU: rows at most 1.3 times a forward pass without logits, 1.8 times with two draws of
random heads, and at most 200 MB for the long contexts. With cuda, the ratio of times and the largest
difference of a row; this was never run on a real GPU.

    python benchmarks/bench_heads_device.py [--device cuda] [--dtype bfloat16] [--small] [--check]
"""

import argparse
import resource
import time
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from attomaton.heads.live import LiveModel
from timing import report

SMOLLM2 = {
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 2048,
}
LONG = {
    **SMOLLM2,
    "vocab_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
}
BATCH = 2048


def build(sizes: dict[str, int], device: str, dtype: str) -> Any:
    """A model with random weights."""
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**sizes)).eval().to(device, getattr(torch, dtype))


def spend(device: str, function: Any) -> float:
    """CPU seconds, or seconds on another device."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    start = clock()
    function()
    if device != "cpu":
        torch.cuda.synchronize()
    return clock() - start


def measure(model: Any, device: str, n: int, length: int) -> tuple[dict[str, float], list[Any]]:
    """Seconds of a plain pass, of rows, and of rows with two draws; and the rows of the first batch."""
    ids = np.random.default_rng(0).integers(0, model.config.vocab_size, (n, length))
    positions = torch.as_tensor(np.sort(np.random.default_rng(1).integers(32, length, (n, 20)), 1))
    size = max(BATCH // length, 1)
    batches = [slice(start, start + size) for start in range(0, n, size)]
    live, rows = LiveModel.of(model), list[Any]()
    draws = [live.rotate(seed=seed) for seed in range(2)]

    def plain() -> None:
        with torch.no_grad():
            for batch in batches:
                model.base_model(input_ids=torch.as_tensor(ids[batch]).to(device), use_cache=False)

    def record(beside: list[Any]) -> None:
        rows.clear()

        def write(_: int, number: int, seen: Any) -> None:
            window = seen[..., -32:].cpu()
            if not number:
                rows.append(window)

        for batch in batches:
            live.record(ids[batch], positions[batch], write, random=beside)

    plain()
    times = {"plain": spend(device, plain), "rows": spend(device, lambda: record([]))}
    return times | {"rows_with_draws": spend(device, lambda: record(draws))}, rows


def measure_memory(device: str, dtype: str) -> float:
    """Megabytes that rows of two contexts of 2,048 tokens with 32 heads take beyond the model."""
    model = build(LONG, device, dtype)
    live = LiveModel.of(model)
    ids = np.random.default_rng(0).integers(0, 512, (1, 2048))
    positions = torch.arange(100, 2000, 95)[None]
    if device == "cpu":
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        live.record(ids, positions, lambda *_: None)
        return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e3
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    live.record(ids, positions, lambda *_: None)
    return (torch.cuda.max_memory_allocated() - before) / 1e6


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--small", action="store_true", help="8 contexts instead of 40")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    n, device = 8 if options.small else 40, options.device
    megabytes = measure_memory(device, options.dtype)
    times, rows = measure(build(SMOLLM2, device, options.dtype), device, n, 256)
    figures: dict[str, Any] = {
        "device": device,
        "seconds": {name: round(value, 2) for name, value in times.items()},
        "ratio_of_rows": round(times["rows"] / times["plain"], 3),
        "ratio_with_draws": round(times["rows_with_draws"] / times["plain"], 3),
        "long_megabytes": round(megabytes, 1),
    }
    if device != "cpu":
        slow, expected = measure(build(SMOLLM2, "cpu", options.dtype), "cpu", n, 256)
        figures["times_faster_than_cpu"] = {name: round(slow[name] / times[name], 2) for name in times}
        figures["largest_difference"] = max(
            float((ours - theirs).abs().max()) for ours, theirs in zip(rows, expected, strict=True)
        )
    report(
        figures,
        {
            "rows": figures["ratio_of_rows"] <= 1.3,
            "draws": figures["ratio_with_draws"] <= 1.8,
            "memory": megabytes <= 200,
        },
    )


if __name__ == "__main__":
    main()
