"""How often the rule for types is right: heads built for each type, random heads, and the ceiling.

1. Models of 2 and of 12 layers with heads built for every type (``tests/heads/audit/built.py``): random
   strengths, Gaussian noise of size .5 on the score of every pair of tokens, and text with sentences, commas
   and passages that come again. Bar: of at least 200 heads, 95 % get the type that they were built for.
2. Random weights: untrained Llama, GPT-2 and GPT-NeoX models of ``transformers``, on stories; models whose
   weights are drawn from a normal distribution and from Student's with three degrees of freedom, on chains
   and on sentences; and built models with all heads rotated. Bar: of at least 400 heads of the three
   families, and of each kind of model, at most 5 % get a specific type: sink, previous token, induction,
   duplicate, position, delimiter, token-specific or next-token seeking.
3. The ceiling where it is known. Bar: within .03.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.heads import AuditSettings, HeadAudit, audit_heads, plain_rungs, rotate_beside, rotate_heads
from attomaton.heads.audit.types import SPECIFIC
from attomaton.heads.model import HeadModel
from timing import DATA, peak_gigabytes, report

sys.path.insert(0, str(Path(__file__).parents[1]))  # the built heads of the tests

from tests.heads.audit.built import (
    TEXTS,
    build_seekers,
    build_typed,
    draw_chains,
    draw_deep,
    draw_sentences,
    measure_ceilings,
)

FAMILIES = ("llama", "gpt2", "gpt_neox")
N_TOKENS = 96


def audit(model: Any, documents: Sequence[Any], random: int | Sequence[HeadModel] = 2) -> HeadAudit:
    """An audit with the usual rungs and small sizes."""
    how = AuditSettings(window=16, per_document=10)
    return audit_heads(model, documents, rungs=plain_rungs(TEXTS), random=random, settings=how)


def type_built() -> Counter[tuple[str, str]]:
    """How many heads built for a type get which."""
    pairs: Counter[tuple[str, str]] = Counter()
    for n_layers, seeds in ((2, 4), (12, 1)):
        for seed in range(seeds):
            rng = np.random.default_rng([n_layers, seed])
            model, types = build_typed(rng, n_layers=n_layers)
            found = audit(model, draw_sentences(rng)).types
            pairs.update(zip(types, (one.name for one in found), strict=True))
    for n_layers, n_heads in ((2, 9), (12, 2)):
        rng = np.random.default_rng([n_layers, 99])
        seeker, model, types = build_seekers(rng, n_layers=n_layers, n_heads=n_heads)
        random = [rotate_beside(model, seed=seed) for seed in range(2)]
        found = audit(seeker, draw_sentences(rng), random).types
        pairs.update(zip(types, (one.name for one in found), strict=True))
    return pairs


def draw_untrained(family: str, seed: int) -> Any:
    """A model of ``transformers`` before training: 3 layers of 8 heads, or 2 of 4."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    n_layers, n_heads = ((2, 4), (3, 8))[seed % 2]
    sizes = {"vocab_size": N_TOKENS, "bos_token_id": 0, "eos_token_id": 0}
    if family == "gpt2":
        sizes |= {"n_embd": 16 * n_heads, "n_layer": n_layers, "n_head": n_heads, "n_positions": 256}
    else:
        sizes |= {"hidden_size": 16 * n_heads, "intermediate_size": 32 * n_heads}
        sizes |= {"num_hidden_layers": n_layers, "num_attention_heads": n_heads}
        sizes |= {"num_key_value_heads": n_heads // 2} if family == "llama" else {}
    torch.manual_seed(seed)
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **sizes)).eval()


def read_letters(n: int, start: int) -> list[Any]:
    """Stories as letters."""
    texts = json.loads((DATA / "tinystories" / "tinystories_1000.json").read_text(encoding="utf-8"))
    letters = (np.frombuffer(text.encode("ascii", "replace")[:128], np.uint8) for text in texts)
    return [ids.astype(np.int64) % N_TOKENS for ids in islice(letters, start, start + n)]


def type_random() -> dict[str, Counter[str]]:
    """How many random heads get which type, by what they are of."""
    found: dict[str, Counter[str]] = {family: Counter() for family in (*FAMILIES, "drawn", "rotated")}
    how = AuditSettings(window=16, per_document=8)
    for family in FAMILIES:
        for seed in range(9):
            model, documents = draw_untrained(family, seed), read_letters(40, 40 * seed)
            found[family].update(one.name for one in audit_heads(model, documents, settings=how).types)
    for number, heavy in enumerate((False, True)):
        rng = np.random.default_rng(number)
        for documents in (draw_chains(rng, 60), draw_sentences(rng)):
            model = draw_deep(rng, n_layers=3, heavy=heavy)
            found["drawn"].update(one.name for one in audit(model, documents).types)
        model, _ = build_typed(rng, n_layers=2)
        types = audit(rotate_heads(model, seed=9), draw_sentences(rng)).types
        found["rotated"].update(one.name for one in types)
    return found


def count_specific(types: Counter[str]) -> int:
    return sum(count for name, count in types.items() if name in SPECIFIC)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="end with 1 if a bar is missed")
    parser.parse_args()
    built, random = type_built(), type_random()
    n, right = built.total(), sum(count for (kind, found), count in built.items() if kind == found)
    wrong, n_random = sum(map(count_specific, random.values())), sum(one.total() for one in random.values())
    ceilings = measure_ceilings(np.random.default_rng(0))
    off = {name: float(np.abs(found - truth).max()) for name, (found, truth) in ceilings.items()}
    of_kind = Counter(kind for kind, _ in built.elements())
    figures = {
        "built_heads": n,
        "right": round(right / n, 4),
        "right_by_type": {kind: f"{built[kind, kind]} of {total}" for kind, total in of_kind.items()},
        "confused": {f"{kind} → {got}": count for (kind, got), count in built.items() if kind != got},
        "random_heads": n_random,
        "random_types": {of: dict(types.most_common()) for of, types in random.items()},
        "random_specific": round(wrong / n_random, 4),
        "ceiling_off_by": {name: round(one, 4) for name, one in off.items()},
        "cpu_s": round(time.process_time(), 1),
        "peak_gb": peak_gigabytes(),
    }
    bars = {
        "200_built_heads": n >= 200,
        "95_percent_right": right >= 0.95 * n,
        "400_heads_of_three_families": sum(random[one].total() for one in FAMILIES) >= 400,
        "5_percent_of_random_heads": wrong <= 0.05 * n_random,
        "5_percent_of_each": all(count_specific(one) <= 0.05 * one.total() for one in random.values()),
        "ceilings_within_3_percent": max(off.values()) <= 0.03,
        "under_5_cpu_minutes": time.process_time() < 300,
    }
    report(figures, bars)


if __name__ == "__main__":
    main()
