"""``attomaton warm-up``: compile everything ahead."""

from time import monotonic

from attomaton.cli.output import AsJson, Quiet, print_json, print_line, stages


def warm_up(as_json: AsJson = False, quiet: Quiet = False) -> None:
    """Compile all kernels for this machine now, so that no later command has to.

    Small texts need no compiling. The first large text compiles what it needs by itself; this command does it
    ahead, for example in a layer of a Docker image.
    """
    from attomaton import warming

    begin = monotonic()
    with stages(quiet) as progress:
        progress("compiling")
        warming.warm_up()
    seconds = round(monotonic() - begin, 1)
    if as_json:
        print_json({"seconds": seconds})
    elif not quiet:
        print_line(f"All kernels are compiled and kept on disk ({seconds} s).")
