"""``attomaton scan-snap``: what the theory of attention with a decoder predicts, query by query."""

from pathlib import Path
from typing import Annotated

from attomaton.cli.output import AsJson, Quiet, path_texts, print_blocks, print_json, print_written
from attomaton.cli.progress import stages
from attomaton.cli.sources import CorpusArgument, CorpusOptions, reads
from attomaton.cli.values import check_folder, path_option, real, whole


@reads
def scan_snap(
    corpus: CorpusArgument,
    corpus_options: CorpusOptions,
    window: Annotated[int, whole("Longest context, in tokens, including the query.", least=2)] = 32,
    queries: Annotated[int, whole("Number of queries to report, the most frequent ones.", least=1)] = 20,
    tolerance: Annotated[
        float,
        real(
            "A token is distinct for a class if at most this share of its occurrences is in other classes.",
            sign="0 to below 1",
            least=0,
            below=1,
        ),
    ] = 0.0,
    min_samples: Annotated[int, whole("Minimum number of samples in a class.", least=1)] = 1,
    decoder_rate: Annotated[
        float, real("Learning rate of the decoder, eta_Y.", sign="> 0", least=1e-12, most=1e12)
    ] = 1.0,
    attention_rate: Annotated[
        float, real("Learning rate of attention, eta_Z.", sign="> 0", least=1e-12, most=1e12)
    ] = 0.1,
    momentum: Annotated[
        float,
        real(
            "Momentum of SGD, which divides both rates by 1 - momentum.",
            sign="0 to below 1",
            least=0,
            below=1,
        ),
    ] = 0.0,
    out: Annotated[Path | None, path_option("Folder for JSON and Parquet files.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compute which tokens attention drops, and when, if decoder and attention are trained together."""
    from attomaton.base.printing import blocks_of
    from attomaton.theories.scansnap.law import Rates
    from attomaton.theories.scansnap.survey import SURVEY, survey_samples

    check_folder(out, SURVEY)
    rates = Rates.with_momentum(decoder_rate, attention_rate, momentum)
    with stages(quiet) as announce:
        announce("reading")
        survey = survey_samples(
            corpus,
            rates,
            n_queries=queries,
            tolerance=tolerance,
            min_samples=min_samples,
            announce=announce,
            window=window,
            **corpus_options,
        )
        if out is not None:
            announce("writing")
            survey.save(out)
    if as_json:
        print_json({**survey.to_dict(), **path_texts(out=out)})
    elif not quiet:
        print_blocks(blocks_of(survey))
        print_written(out)
