"""The one way to compile: numba, where compiling pays, with its own cache on disk.

What is decorated here stays an ordinary function of numbers and arrays, and both ways of running it give the
same numbers. Small work is done by Python itself, because numba needs seconds to compile a solver; larger
work is compiled (:mod:`attomaton.base.kernels.kernel` says when).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, overload

from attomaton.base.kernels.kernel import Inner, Kernel, Work, announced

__all__ = ["announced", "compiled", "compiled_within", "copy_into", "expect_work", "is_kept"]

Function = TypeVar("Function", bound=Callable[..., Any])


@overload
def compiled(function: Function) -> Function: ...
@overload
def compiled(*, work: Work, instead: Callable[..., Any] | None = None) -> Callable[[Function], Function]: ...
def compiled(
    function: Any = None, *, work: Work | None = None, instead: Callable[..., Any] | None = None
) -> Any:
    """The function, compiled as soon as that pays, and kept on disk for the next program where possible.

    ``work(*arguments)`` estimates how many entries of arrays a call looks at; if it is not given, a call
    looks at every entry of its arguments once. Compiled code runs without Python's lock, so threads may call
    it side by side. ``instead`` is what Python runs where it does not compile, if that is not the function
    itself: the same in numpy, up to rounding.
    """
    if function is None:
        return partial(Kernel, work=work, instead=instead)
    return Kernel(function, work, instead)


def expect_work(kernel: Callable[..., Any], work: float) -> None:
    """Say how many entries the next calls of a kernel will look at, before they are shared between threads.

    Otherwise the first threads would begin a large problem in Python, since their own share of it is small.
    """
    if isinstance(kernel, Kernel):
        kernel.expect(work)


def is_kept(kernel: Callable[..., Any]) -> bool | None:
    """Whether this program or an earlier one compiled the kernel and kept the code on disk.

    None where nothing is kept: there is no place to write to, or compiling is switched off.
    """
    return kernel.is_kept() if isinstance(kernel, Kernel) else None


def compiled_within(function: Function) -> Function:
    """The same for a function that only decorated functions call.

    The code that would unpack Python's objects is left out, which for functions of a dozen arrays is much of
    what there is to compile.
    """
    kernel: Any = Inner(function)
    return kernel


@compiled_within
def copy_into(target: Any, begin: int, values: Any) -> None:
    """``target[begin : begin + len(values)] = values``, without the words for shapes that do not fit.

    Those words alone take seconds to compile.
    """
    for place in range(len(values)):
        target[begin + place] = values[place]
