"""``attomaton heads``: what explains where the heads of a trained model look."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from attomaton.cli.output import AsJson, Quiet, print_json, print_line, print_value, stages
from attomaton.cli.sources import Corpus, How, reads_beside_model
from attomaton.cli.values import place, whole, words, words_argument
from attomaton.errors import UnsupportedOption

if TYPE_CHECKING:
    from attomaton.audit.heads import Audit
    from attomaton.corpora.documents import Documents
    from attomaton.heads.model import Head, HeadModel


@reads_beside_model
def heads(
    model: Annotated[
        str, words_argument("A folder with config.json and safetensors files, or an id of the hub.")
    ],
    corpus: Corpus,
    how: How,
    revision: Annotated[str | None, words("Which commit of a model of the hub.")] = None,
    window: Annotated[int, whole("Places of each attention row.", least=2)] = 32,
    per_document: Annotated[int, whole("Positions that are drawn from each document.", least=1)] = 20,
    longest: Annotated[int, whole("Longest context, in tokens.", least=3)] = 256,
    random: Annotated[int, whole("How many models with random heads to hold them against.", most=100)] = 2,
    length: Annotated[int, whole("Tokens of the contexts of causal value; 0 leaves it out.")] = 64,
    head: Annotated[str | None, words("Show contexts of one head, such as 4.0, and nothing else.")] = None,
    limit: Annotated[int, whole("How many contexts of --head to show.", least=1)] = 5,
    seed: Annotated[int, whole("Random seed of what is drawn.")] = 0,
    out: Annotated[Path | None, place("Parquet file to write the table to.")] = None,
    figure: Annotated[Path | None, place("File to draw to, such as heads.pdf or heads.png.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Say of every head of MODEL what explains its attention on CORPUS, and whether it seeks the label."""
    from attomaton.audit.contexts import show_head
    from attomaton.audit.heads import Audit, audit_heads
    from attomaton.audit.randomised import rotate_heads
    from attomaton.heads.opening import open_model

    settings = Audit(window, per_document, longest, length=length, seed=seed)
    asked = None if head is None else read_head(head)
    with stages(quiet or as_json) as announce:
        announce(f"reading {model}")
        opened = open_model(model, revision=revision)
        read = _read(corpus, how, model)
        texts = [
            read.ids[first:last] for first, last in zip(read.offsets[:-1], read.offsets[1:], strict=True)
        ]
        rungs = _rungs(opened, settings)
        if asked is not None:
            found: Any = show_head(
                opened, texts, asked, rungs=rungs, how=settings, n=limit, vocabulary=read.vocabulary,
                progress=announce,
            )  # fmt: skip
        else:
            controls = [rotate_heads(opened, seed=seed + one) for one in range(random)]
            found = audit_heads(opened, texts, rungs=rungs, random=controls, how=settings, progress=announce)
        _write(found, out, figure)
    if as_json:
        table: Any = found.to_arrow()
        written = {
            "out": None if out is None else str(out),
            "figure": None if figure is None else str(figure),
        }
        print_json({"model": opened.name, "rows": _finite(table.to_pylist()), **written})
    elif not quiet:
        print_value(found)
        for path in (out, figure):
            if path is not None:
                print_line(f"Written to {path}.")


def read_head(text: str) -> "Head":
    """A head as it is written: layer, dot, number.

    Examples
    --------
    >>> str(read_head("4.0"))
    '4.0'
    """
    from attomaton.heads.model import Head

    layer, dot, number = text.partition(".")
    if not (dot and layer.isascii() and layer.isdecimal() and number.isascii() and number.isdecimal()):
        raise UnsupportedOption(f"--head is {text!r}; give layer and number, such as 4.0")
    return Head(int(layer[:9]), int(number[:9]))


def _read(corpus: str, how: How, model: str) -> "Documents":
    """The corpus as ids of the model: by the tokenizer asked for, by the model's own, or ids as they are."""
    from attomaton.readers.given import read_given

    own = Path(model) / "tokenizer.json"
    tokenizer = how.tokenizer or (str(own) if own.is_file() else None)
    read, _ = read_given(corpus, tokenizer or "word", how.reading)
    if tokenizer is None and read.vocabulary is not None:
        raise UnsupportedOption(
            "the corpus is text, and nothing says which id of the model a word has; give the model's "
            "tokenizer.json with --tokenizer, or token ids"
        )
    return read


def _rungs(model: "HeadModel", settings: "Audit") -> Any:
    """The rungs that every audit has: the usual ones, and the automaton and ``shrink``."""
    from attomaton.audit.heads import learned_rungs, plain_rungs

    n_tokens = model.shape.n_tokens

    def make(documents: Any) -> Any:
        learned = learned_rungs(documents, n_tokens=n_tokens, window=settings.window)
        return (*plain_rungs(documents, n_tokens=n_tokens), *learned)

    return make


def _write(found: Any, out: Path | None, figure: Path | None) -> None:
    if out is not None:
        from attomaton.tables import write_parquet

        _write_file(out, lambda draft: write_parquet(found.to_arrow(), draft), b"PAR1")
    if figure is None:
        return
    if not hasattr(found, "plot"):
        raise UnsupportedOption("--figure draws all heads; leave --head out")
    from attomaton.drawing import paper_style

    kind = figure.suffix[1:].lower() or "pdf"
    with paper_style():
        drawn: Any = found.plot().figure
        marks = {"pdf": b"%PDF", "png": b"\x89PNG", "svg": b"<?xml"}
        if kind not in marks:
            raise UnsupportedOption(f"--figure ends in .{kind}; draw to .pdf, .png or .svg")
        _write_file(figure, lambda draft: drawn.savefig(draft, format=kind, bbox_inches="tight"), marks[kind])


def _write_file(path: Path, write: Callable[[Path], object], mark: bytes) -> None:
    """Write a whole file, in place of one of the same kind only."""
    from attomaton.artifacts import write_target

    def is_ours(old: Path) -> bool:
        with old.open("rb") as stream:
            return stream.read(len(mark)) == mark

    write_target(path, write, is_ours=is_ours)


def _finite(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows in which what is not finite is null, for JSON."""
    from math import isfinite

    return [
        {name: None if isinstance(one, float) and not isfinite(one) else one for name, one in row.items()}
        for row in rows
    ]
