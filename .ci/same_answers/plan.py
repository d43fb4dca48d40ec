"""What ``.ci/same_answers`` runs: three corpora, the shipped text, all experiments, Python functions."""

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TEXTS = "../inputs"
"""The folder of :func:`make_inputs`, as commands see it; all paths are relative, and so without blanks."""

CORPORA = {
    "shakespeare": ("tinyshakespeare/input.txt", "character"),
    "moby-dick": ("gutenberg/moby-dick.txt", "word"),
    "wikitext": ("wikitext-2/valid.txt", "word"),
}
"""Path below ATTOMATON_DATA, and tokenizer."""

EXPERIMENTS = {
    **dict.fromkeys(
        [f"mechanics-{name}" for name in ("acyclic", "global", "local", "path", "plain")], ("", "")
    ),
    "text-shakespeare": ("data/tinyshakespeare/input.txt", "shakespeare-begin.txt"),
    "text-wikitext": ("data/wikitext-2/valid.txt", "wikitext-begin.txt"),
    **{f"scan-snap-{name}": ("", "") for name in ("3", "4", "5", "6", "meeting")},
    "scan-snap-7": ("data/wikitext-2", "wikitext-begin"),
    "scan-snap-10": ("data/wikitext-2", "wikitext-begin"),
}
"""What `attomaton reproduce list` names, with the data as published and in short."""


SHORT = """the keeper lit the lamp and the lamp lit the sea .
a boat saw the lamp . the boat came in from the sea .
the keeper saw the boat , and the boat saw the keeper .
"""
TRAININGS = {
    "run": "--steps 2000",
    "embedded": "--steps 1500 --dim 16 --seed 3",
    "normalized": "--steps 500 --dim 12 --normalized --step-size 0.05",
}
"""Options of training on ``SHORT``."""


@dataclass(frozen=True)
class Size:
    """How much is run.

    Attributes
    ----------
    characters : int, optional
        Length of each corpus; None: all of it.
    trials : int, optional
        Of each experiment; None: as published, on the texts that it was published with.
    experiments : tuple of str
        Which of them.
    contexts : int
        To be explained, of each run.
    variants : bool
        Whether every engine meets every window, and other options and tokenizers are tried too.
    """

    characters: int | None
    trials: int | None
    experiments: tuple[str, ...]
    contexts: int
    variants: bool


FEW = ("mechanics-global", "mechanics-path", "scan-snap-4", "scan-snap-meeting")
SIZES = {
    "quick": Size(characters=40_000, trials=2, experiments=FEW, contexts=1, variants=False),
    "default": Size(characters=None, trials=3, experiments=tuple(EXPERIMENTS), contexts=2, variants=True),
    "full": Size(characters=None, trials=None, experiments=tuple(EXPERIMENTS), contexts=2, variants=True),
}


@dataclass(frozen=True)
class Command:
    """A command, and where what it prints goes; without arguments it is the Python functions."""

    name: str
    arguments: list[str]


@dataclass(frozen=True)
class Inputs:
    """The folder of texts that both checkouts read, and how much is run."""

    folder: Path
    size: Size

    def contexts(self, corpus: str) -> list[str]:
        """Pieces of a corpus to be explained, at even distances."""
        text = (self.folder / f"{corpus}.txt").read_text(encoding="utf-8")
        count = self.size.contexts
        places = [len(text) * (number + 1) // (count + 1) for number in range(count)]
        return [" ".join(text[place : place + 150].split()[1:-1]) for place in places]


def make_inputs(folder: Path, size: Size) -> Inputs:
    """Write the corpora, beginnings of them for what takes long on more, and a link to all data."""
    data = Path(os.environ.get("ATTOMATON_DATA", "../shared/data")).resolve()
    if not data.is_dir():
        sys.exit(f"{data} is not there; set ATTOMATON_DATA to the folder of real corpora")
    wikitext = data / "wikitext-2"
    for name, (path, _) in CORPORA.items():
        _copy(data / path, folder / f"{name}.txt", size.characters)
        _copy(data / path, folder / f"{name}-begin.txt", 30_000)
    _copy(wikitext / "train.articles-shuffled.txt", folder / "wikitext-begin/train.txt", 20_000)
    _copy(wikitext / "valid.txt", folder / "wikitext-begin/valid.txt", 150_000)
    (folder / "short.txt").write_text(SHORT, encoding="utf-8")
    (folder / "data").symlink_to(data)
    return Inputs(folder, size)


def _copy(source: Path, target: Path, characters: int | None) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(source.read_text(encoding="utf-8")[:characters], encoding="utf-8")


def plan(inputs: Inputs) -> list[Command]:
    """All commands, in the order in which they run."""
    corpora = list(CORPORA)
    tokenised = corpora if inputs.size.variants else corpora[:1]
    across = "diff moby-dick-8-memory/run wikitext-8-memory/run --limit 50 --json"
    return [
        Command("python/face", []),
        *plan_story(),
        *plan_training(),
        *(plan_variants() if inputs.size.variants else ()),
        *(one for name in corpora for one in plan_corpus(inputs, name)),
        _command("moby-dick-diff/across", across),
        *(one for name in tokenised for one in plan_shards(name)),
        *plan_experiments(inputs),
    ]


def plan_corpus(inputs: Inputs, name: str) -> Iterator[Command]:
    """Learn with both engines, then explain, report, export and compare what was learned."""
    tokenizer, variants = CORPORA[name][1], inputs.size.variants
    runs = [(8, "memory"), (32, "duckdb"), *([(8, "duckdb"), (32, "memory")] if variants else [])]
    for window, engine in runs:
        group = f"{name}-{window}-{engine}"
        options = f"--window {window} --tokenizer {tokenizer} --engine {engine} --threads 1"
        yield _command(f"{group}/learn", f"learn {TEXTS}/{name}.txt {options} --out {group}/run --json")
        if engine == "memory":
            for number, context in enumerate(inputs.contexts(name)):
                yield _command(f"{group}/explain-{number}", f"explain {group}/run --json", context)
            yield _command(f"{group}/report", f"report {group}/run --out {group}/report.html --json")
    group = f"{name}-8-memory"
    yield _command(f"{name}-diff/windows", f"diff {group}/run {name}-32-duckdb/run --json")
    both = f"--graphml {group}/components.graphml --csv {group}/tables"
    yield _command(f"{group}/export", f"export {group}/run {both} --json")
    if variants:
        tokens = f"--graphml {group}/tokens.graphml --nodes tokens --queries 40"
        yield _command(f"{group}/export-tokens", f"export {group}/run {tokens} --json")


def plan_shards(name: str) -> Iterator[Command]:
    """Tokenise a corpus, learn from its shards, and ask the second theory about its beginning."""
    group, tokenizer = f"{name}-shards", f"--tokenizer {CORPORA[name][1]}"
    out = f"{tokenizer} --out {group}/shards --json"
    yield _command(f"{group}/tokenize", f"tokenize {TEXTS}/{name}.txt {out}")
    yield _command(f"{group}/learn", f"learn {group}/shards --window 8 --threads 1 --out {group}/run --json")
    out = f"{tokenizer} --out {name}-scan-snap/survey --json"
    yield _command(f"{name}-scan-snap/survey", f"scan-snap {TEXTS}/{name}-begin.txt --window 8 {out}")


def plan_story() -> Iterator[Command]:
    """Learn, explain, report and survey the shipped text; what is printed for people too."""
    yield _command("story/example", "example story/story.txt --json")
    yield _command("story/learn", "learn story/story.txt --window 8 --out story/run")
    yield _command("story/explain", "explain story/run", "the girl saw the lamp and the keeper saw the")
    yield _command("story/scan-snap", "scan-snap story/story.txt --window 8 --queries 5")
    yield _command("story/report", "report story/run --out story/report.html --figures story/figures --json")


def plan_training() -> Iterator[Command]:
    """Learn, train and verify a few sentences, without and with embeddings; the report shows the training."""
    yield _command("training/learn", f"learn {TEXTS}/short.txt --window 8 --out training/run --json")
    for name, options in TRAININGS.items():
        out = f"training/{name}"
        yield _command(f"{out}-train", f"train {TEXTS}/short.txt --window 8 {options} --out {out} --json")
        yield _command(f"{out}-verify", f"verify {out} --json")
    yield _command("training/printed", "verify training/run")
    yield _command("training/report", "report training/run --out training/report.html --json")


def plan_variants() -> Iterator[Command]:
    """Other tokenizers, selections and engines, on the beginning of a corpus."""
    options = {
        "byte": "--tokenizer byte --window 5",
        "gpt2": f"--tokenizer {TEXTS}/data/tokenizers/gpt2/tokenizer.json",
        "tiktoken": f"--tokenizer {TEXTS}/data/tokenizers/cl100k/cl100k_base.tiktoken",
        "lines": "--documents line --max-window 12",
        "support": "--min-support 2 --queries 30",
        "share": "--sample-queries 0.3 --engine duckdb --threads 1",
    }
    options |= {"spark": "--engine spark --threads 1"} if shutil.which("java") else {}
    for name, given in options.items():
        out = f"--out variants/{name}-run --json"
        yield _command(f"variants/{name}", f"learn {TEXTS}/wikitext-begin.txt {given} {out}")


def plan_experiments(inputs: Inputs) -> Iterator[Command]:
    """Published experiments: as published, or with few trials and on short texts."""
    yield _command("experiments/list", "reproduce list --json")
    published = inputs.size.trials is None
    for name in inputs.size.experiments:
        source = EXPERIMENTS[name][0 if published else 1]
        data = f"--data {TEXTS}/{source}" if source else ""
        count = 1 if name == "scan-snap-10" else inputs.size.trials  # it trains for 2,500 steps a trial
        trials = "" if published else f"--trials {count}"
        yield _command(f"{name}/numbers", f"reproduce {name} {data} {trials} --out {name}/page --json")
    if inputs.size.variants:
        out = "--out all-mechanics/pages --json"
        yield _command("all-mechanics/numbers", f"reproduce all-mechanics --trials 2 --seed 5 {out}")


def _command(name: str, words: str, *last: str) -> Command:
    """A command from its words; an argument with blanks comes last."""
    return Command(name, [*words.split(), *last])
