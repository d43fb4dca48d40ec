"""Options and arguments whose values are checked while they are parsed."""

# `whole`, `real`, `fraction` and `words` are options with a number or a text, `path_option` and `run_option`
# have a path, and the functions `…_argument` are arguments. `check_folder` and `check_drawings` check the
# places of output before a command computes anything.

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from attomaton.base import options
from attomaton.base.errors import UnsupportedOption
from attomaton.base.remote import as_path, is_url

if TYPE_CHECKING:
    from attomaton.base.artifacts import FolderKind

# Longest text that is read as a number: below the 4,300 digits that int() reads by default.
MOST_DIGITS = 4_000

_WHOLE = re.compile(r"[+-]?[0-9]+")
_REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|[+-]?(nan|inf(inity)?)", re.IGNORECASE)


def whole(
    help_text: str, *, least: int = 0, most: int = options.LARGEST_WHOLE, names: tuple[str, ...] = ()
) -> Any:
    limits = f"{least} to {most}" if most < options.LARGEST_WHOLE else f">= {least}"
    parser = _parser(lambda text: options.whole_number(read_number(text), "it", least=least, most=most))
    return typer.Option(*names, parser=parser, metavar=f"<int {limits}>", help=help_text)


def real(help_text: str, *, sign: str = "", **limits: float) -> Any:
    # `sign` says in the help what the limits (above, least, below, most) are
    parser = _parser(lambda text: options.real_number(read_number(text), "it", **limits))
    return typer.Option(parser=parser, metavar=f"<float {sign}".rstrip() + ">", help=help_text)


def fraction(help_text: str) -> Any:
    parser = _parser(lambda text: options.share(read_number(text), "it"))
    return typer.Option(parser=parser, metavar="<float 0 to 1>", help=help_text)


def path_option(help_text: str) -> Any:
    return typer.Option(parser=_parser(_path), metavar="<path>", help=help_text)


def run_option(help_text: str) -> Any:
    return typer.Option(parser=_parser(_run_path), metavar="<path or URL>", help=help_text)


def run_argument(help_text: str) -> Any:
    return typer.Argument(parser=_parser(_run_path), help=help_text)


def path_argument(help_text: str) -> Any:
    return typer.Argument(parser=_parser(_path), help=help_text)


def source_argument(help_text: str) -> Any:
    def check(text: Any) -> str:
        return str(text) if "://" in str(text) else options.check_path(str(text), "it")

    return typer.Argument(parser=_parser(check), help=help_text)


def words(help_text: str) -> Any:
    return typer.Option(parser=_parser(_checked_text), metavar="<str>", help=help_text)


def words_argument(help_text: str) -> Any:
    return typer.Argument(parser=_parser(_checked_text), help=help_text)


def is_stream(path: Path | None, as_json: bool) -> bool:
    """Whether a file is written to standard output, where nothing else may then be printed."""
    if path is None or str(path) != "-":
        return False
    if as_json:
        raise UnsupportedOption("the file and --json cannot both go to standard output; name a file, not -")
    return True


def check_folder(folder: Path | None, kind: "FolderKind", *, overwrite: bool = True) -> None:
    from attomaton.base.artifacts.folders import check_replaceable, resolve_target

    if folder is not None:
        check_replaceable(resolve_target(folder), kind, overwrite=overwrite)


def check_drawings(figure: Path | None, page: Path | None) -> None:
    """Refuse a figure or page that cannot be written, and create their folders, before the long work."""
    from attomaton.base.artifacts.files import explained

    if figure is not None:
        from attomaton.base.drawing import paper_style
        from attomaton.report.figures import check_figure

        check_figure(figure)
        with paper_style():  # an error now if matplotlib is missing
            pass
    if page is not None:
        from attomaton.base.artifacts import check_target
        from attomaton.base.pages import is_page

        check_target(page, is_ours=is_page)
    for path in (figure, page):
        if path is not None:
            with explained(path):
                path.parent.mkdir(parents=True, exist_ok=True)


def read_queries(text: str | None) -> list[str] | int | None:
    """The tokens named by ``--queries``, or the number of queries."""
    if text is None:
        return None
    if text.isascii() and text.isdecimal():
        return options.whole_number(read_number(text), "--queries", least=1)
    return text.split()


def read_number(text: Any) -> Any:
    # a number as int or float; any other value stays as it is, and the check that follows refuses it
    if not isinstance(text, str) or len(text) > MOST_DIGITS:
        return text
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _REAL.fullmatch(text) else text


def _path(text: Any) -> Any:
    return options.given_path(text, "it")


def _run_path(text: Any) -> Any:
    return as_path(text) if isinstance(text, str) and is_url(text) else options.given_path(text, "it")


def _checked_text(text: Any) -> str:
    return options.check_text(str(text), "it")


def _parser(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    # A parser whose errors name the option: checks call the value "it", and typer adds the name.

    def parse(text: Any) -> Any:
        try:
            return check(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error

    return parse
