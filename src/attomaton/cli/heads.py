"""``attomaton heads``: what explains where the heads of a trained model look."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attomaton.base.errors import MismatchedParts, SameWeights, UnsupportedOption, needing
from attomaton.base.progress import Stages
from attomaton.cli.output import AsJson, Quiet, print_json, print_line, print_value, stages, told_as_lines
from attomaton.cli.sources import Corpus, How, reads_beside_model
from attomaton.cli.values import place, whole, words, words_argument

if TYPE_CHECKING:
    from attomaton.corpora.documents import Documents
    from attomaton.heads.audit.course import ModelStep
    from attomaton.heads.audit.heads import Audit
    from attomaton.heads.model import Head, HeadModel


@reads_beside_model
def heads(
    models: Annotated[
        list[str],
        words_argument(
            "A folder with config.json and safetensors files, a GGUF file, a hub id, or a run of attomaton; "
            "or several checkpoints of one training, such as run/checkpoint-*."
        ),
    ],
    corpus: Corpus,
    how: How,
    revision: Annotated[
        list[str] | None,
        words("Commit, branch or tag of a hub model. Give it several times to audit a series."),
    ] = None,
    steps: Annotated[
        int | None,
        whole("Audit at most this many checkpoints, evenly spaced.", least=1),
    ] = None,
    window: Annotated[int, whole("Positions before the query that an attention row covers.", least=2)] = 32,
    per_document: Annotated[int, whole("Positions to sample from each document.", least=1)] = 20,
    longest: Annotated[int, whole("Longest context, in tokens.", least=3)] = 256,
    random: Annotated[int, whole("Number of models with random heads to compare with.", most=100)] = 2,
    null: Annotated[
        str,
        words("Random heads: intact (they read the trained residual stream) or rotated (in all layers)."),
    ] = "intact",
    length: Annotated[int, whole("Length of the contexts for causal value; 0 skips it.")] = 64,
    no_utility: Annotated[
        bool,
        typer.Option("--no-utility", help="Skip the rungs made of each head's own values."),
    ] = False,
    head: Annotated[str | None, words("Show contexts of this head only, such as 4.0.")] = None,
    limit: Annotated[int, whole("Number of contexts to show with --head.", least=1)] = 5,
    seed: Annotated[int, whole("Random seed.")] = 0,
    out: Annotated[Path | None, place("Parquet file for the table.")] = None,
    figure: Annotated[Path | None, place("File for the figure, such as heads.pdf or heads.png.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Audit every head of MODELS: what explains where it looks on CORPUS, and whether it seeks the label.

    Several models, named after their steps as in checkpoint-100, are audited on the same contexts. Text is
    tokenised with tokenizer.json beside the model or on the hub, the tokenizer in a GGUF file, the vocabulary
    of a run, or --tokenizer (also .tiktoken files and .bin files of llama2.c). Utility in closed form needs a
    vocabulary of at most 5,000 tokens.
    """
    with needing("heads"):
        from attomaton.heads.audit.heads import Audit

    settings = Audit(window, per_document, longest, length=length, seed=seed)
    chosen = None if head is None else read_head(head)
    _check_targets(out, figure, head)
    with stages(quiet or as_json) as announce, told_as_lines(SameWeights):
        announce("reading")
        revisions = tuple(revision or ())
        model_steps = find_models(models, revisions=revisions, steps=steps)
        last = model_steps[-1].open()  # says what is wrong with the model before the corpus is read
        documents = read_for(model_steps, corpus, how, revisions=revisions)
        watching = _Watching(model_steps, last, documents, settings, announce, useful=not no_utility)
        value = watching.audit(random, null) if chosen is None else watching.show(chosen, limit)
        _write(value, out, figure)
    if as_json:
        table: Any = value.table()
        paths = {name: path and str(path) for name, path in (("out", out), ("figure", figure))}
        print_json({"model": watching.last.name, "rows": _finite(table.to_pylist()), **paths})
    elif not quiet:
        print_value(value)
        for path in (out, figure):
            if path is not None:
                print_line(f"Written to {path}.")


@dataclass(eq=False)
class _Watching:
    """Models, a corpus as their ids and settings, and what is asked of them."""

    models: "Sequence[ModelStep]"
    last: "HeadModel"
    read: "Documents"
    settings: "Audit"
    announce: Stages
    useful: bool

    @property
    def texts(self) -> list[Any]:
        """The documents."""
        borders = pairwise(self.read.offsets.tolist())
        return [self.read.ids[first:last] for first, last in borders]

    def audit(self, random: int, null: str) -> Any:
        """The audit of one model, or of the steps of a training."""
        from attomaton.heads.audit.course import audit_course
        from attomaton.heads.audit.heads import audit_heads

        options: Any = {"rungs": self.rungs, "random": random, "null": null}
        options |= {"how": self.settings, "progress": self.announce}
        if len(self.models) > 1:
            return audit_course(self.models, self.texts, **options)
        return audit_heads(self.last, self.texts, **options)

    def show(self, head: "Head", limit: int) -> Any:
        """Contexts of one head."""
        from attomaton.heads.audit.contexts import show_head

        if len(self.models) > 1:
            raise UnsupportedOption("--head shows contexts of one model; leave it out, or give one model")
        return show_head(
            self.last, self.texts, head, rungs=self.rungs, how=self.settings, n=limit,
            vocabulary=self.read.vocabulary, progress=self.announce,
        )  # fmt: skip

    def rungs(self, documents: Any) -> Any:
        """The usual rungs, the automaton and ``shrink``, and utility unless it is left out."""
        from attomaton.heads.audit.rungs import learned_rungs, plain_rungs, useful_rungs

        sizes = {"n_tokens": self.last.shape.n_tokens, "window": self.settings.window}
        plain = plain_rungs(documents, n_tokens=sizes["n_tokens"])
        own = useful_rungs(documents, **sizes) if self.useful else ()
        return (*plain, *learned_rungs(documents, **sizes), *own)


def read_head(text: str) -> "Head":
    """A head as it is written: layer, dot, number."""
    from attomaton.heads.model import Head

    layer, dot, number = text.partition(".")
    if not (dot and layer.isascii() and layer.isdecimal() and number.isascii() and number.isdecimal()):
        raise UnsupportedOption(f"--head is {text!r}; give layer and number, such as 4.0")
    return Head(int(layer[:9]), int(number[:9]))


MARKS = {"parquet": b"PAR1", "pdf": b"%PDF", "png": b"\x89PNG", "svg": b"<?xml"}
"""How files of each kind begin: only such files are replaced."""


def _is_a(kind: str) -> Callable[[Path], bool]:
    """What says of a file whether it is of a kind."""

    def is_ours(old: Path) -> bool:
        with old.open("rb") as stream:
            return stream.read(len(MARKS[kind])) == MARKS[kind]

    return is_ours


def _check_targets(out: Path | None, figure: Path | None, head: str | None) -> None:
    """Say at once why a file cannot be written: before the audit, not after."""
    from attomaton.base.artifacts import check_target

    if out is not None:
        check_target(out, is_ours=_is_a("parquet"))
    if figure is None:
        return
    if head is not None:
        raise UnsupportedOption("--figure draws all heads; leave --head out")
    check_target(figure, is_ours=_is_a(_kind_of(figure)))


def _kind_of(figure: Path) -> str:
    kind = figure.suffix[1:].lower() or "pdf"
    if kind not in ("pdf", "png", "svg"):
        raise UnsupportedOption(f"--figure ends in .{kind}; draw to .pdf, .png or .svg")
    return kind


def _write(value: Any, out: Path | None, figure: Path | None) -> None:
    from attomaton.base.artifacts import write_target

    if out is not None:
        from attomaton.base.tables import write_parquet

        write_target(out, lambda draft: write_parquet(value.table(), draft), is_ours=_is_a("parquet"))
    if figure is None:
        return
    from attomaton.base.drawing import paper_style

    kind = _kind_of(figure)
    with paper_style():
        axes: Any = value.plot()
        drawn = axes.figure if hasattr(axes, "figure") else axes[0].figure
        options: Any = {"format": kind, "bbox_inches": "tight"}
        write_target(figure, lambda draft: drawn.savefig(draft, **options), is_ours=_is_a(kind))


def _finite(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows in which what is not finite is null, for JSON."""
    from math import isfinite

    return [
        {name: None if isinstance(cell, float) and not isfinite(cell) else cell for name, cell in row.items()}
        for row in rows
    ]


def find_models(
    sources: Sequence[str], *, revisions: Sequence[str] = (), steps: int | None = None
) -> "tuple[ModelStep, ...]":
    """What the arguments name: one model, as it is, or the steps of a training; none is opened."""
    from attomaton.heads.audit.course import ModelStep, expand, find_revisions, find_steps, spread
    from attomaton.heads.opening import open_model

    if revisions:
        if len(sources) != 1:
            raise UnsupportedOption("--revision is for one model of the hub; leave it out, or give one model")
        series = find_revisions(sources[0], revisions)
        return series if steps is None else spread(series, steps)
    names = expand(sources)
    for missing in (name for name in names if not Path(name).exists()):
        open_model(missing)  # says what is missing, before the corpus is read
    if len(names) == 1 and steps is None:
        return (ModelStep(0, names[0], partial(open_model, names[0])),)
    return find_steps(names, most=steps)


def read_for(
    models: "Sequence[ModelStep]", corpus: str, how: "How", *, revisions: Sequence[str] = ()
) -> "Documents":
    """The corpus as ids of the models: by the tokenizer asked for, by their own, or ids as they are."""
    from attomaton.corpora.readers.corpus import read_given

    tokenizer: Any = how.tokenizer or own_tokenizer([model.name for model in models], on_hub=bool(revisions))
    read, _ = read_given(corpus, tokenizer or "word", how.reading)
    if tokenizer is None and read.vocabulary is not None:
        raise UnsupportedOption(
            "the corpus is text, and nothing says which id of the model a word has; give the model's "
            "tokenizer.json with --tokenizer (or a .tiktoken file, or a .bin file of llama2.c such as "
            "tok512.bin), or token ids; a run of attomaton knows its words once `attomaton learn` was run "
            "with the same text and --out"
        )
    return read


def own_tokenizer(names: Sequence[str], *, on_hub: bool = False) -> Any:
    """The tokenizer that stands beside models, the same beside all; None where there is none.

    Models of the hub are named with their revision, ``owner/name@revision``.
    """
    files = {name: place for name in names if (place := _on_hub(name) if on_hub else _beside(name))}
    digests = {name: _digest_tokenizer(place) for name, place in files.items()}
    if len(set(digests.values())) > 1:
        first = next(iter(files))
        other = next(name for name in files if digests[name] != digests[first])
        raise MismatchedParts(
            f"the tokenizers of {first} and {other} differ, so that their ids are of other tokens; give "
            "models of one training, or the tokenizer of all with --tokenizer"
        )
    if not files:
        return None
    place = next(iter(files.values()))
    if place.suffix == ".gguf":
        from attomaton.heads.reading.gguf_tokenizer import read_tokenizer

        return read_tokenizer(place)
    if place.name == "tokenizer.json":
        return str(place)
    from attomaton.automaton.automaton import Automaton

    return Automaton.load(place.parent).vocabulary


def _digest_tokenizer(place: Path) -> str:
    """What two files share if their tokenizers are the same."""
    from attomaton.base.artifacts import digest_file

    if place.suffix != ".gguf":
        return digest_file(place)
    from attomaton.heads.reading.gguf_tokenizer import read_tokenizer

    return str(read_tokenizer(place).definition)


def _on_hub(name: str) -> Path | None:
    from attomaton.heads.reading.folders import fetch_tokenizer

    repository, _, revision = name.partition("@")
    return fetch_tokenizer(repository, revision)


def _beside(name: str) -> Path | None:
    """The file that says which ids tokens have: tokenizer.json, or the vocabulary of a run of attomaton."""
    place = Path(name)
    if place.suffix == ".gguf":
        return place
    run = place.absolute().parent.parent.parent if place.suffix == ".safetensors" else place
    for file in (place / "tokenizer.json", run / "vocabulary.json"):
        if file.is_file() and (file.name == "tokenizer.json" or (file.parent / "training").is_dir()):
            return file
    return None
