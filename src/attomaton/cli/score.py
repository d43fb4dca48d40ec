"""``attomaton score``: how well a run predicts new text."""

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from attomaton.cli.attentions import LearnedOption, StepOption, Strength, pick_attention
from attomaton.cli.output import AsJson, Quiet, print_json, print_line, print_value
from attomaton.cli.progress import stages
from attomaton.cli.sources import CorpusArgument, CorpusOptions, reads_beside_run
from attomaton.cli.values import real, run_argument, whole

if TYPE_CHECKING:
    from attomaton.corpora.readers.corpus import ReadingOptions


@reads_beside_run
def score(
    run: Annotated[Path, run_argument("Folder written by `attomaton learn --out`: a path or URL.")],
    corpus: CorpusArgument,
    corpus_options: CorpusOptions,
    window: Annotated[
        int | None, whole("Longest context, in tokens; default: that of the run.", least=1)
    ] = None,
    epsilon: Annotated[
        float, real("Share of uniform attention to mix into the prediction.", sign="0 to 1", least=0, most=1)
    ] = 0.0,
    step: StepOption = None,
    shrink: Strength = None,
    learned_from: LearnedOption = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Score RUN on new text: log-loss and accuracy.

    Only samples whose next token is in the context count: attention cannot retrieve other tokens.
    """
    with stages(quiet) as announce:
        announce("reading")
        attention = pick_attention(run, corpus_options, learned_from, step=step, strength=shrink)
        options: ReadingOptions = {**corpus_options}
        if window is not None:
            options["window"] = window
        scored = attention.score(corpus, epsilon=epsilon, **options)
    if as_json:
        loss = scored.log_loss if isfinite(scored.log_loss) else None
        print_json({**scored.to_dict(), "log_loss": loss, "unknown": list(scored.unknown)})
    elif quiet:
        print_line(f"{scored.log_loss:.6f}")
    else:
        print_value(scored)
