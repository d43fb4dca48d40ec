"""Mutants of files: what makes them, and what runs very many of them through a reader.

A campaign forks one child for some thousand mutants, which keeps the cost of a mutant near that of the read
itself. The child notes in shared memory which mutant it is at, so that whatever kills it, a signal or the
timer of a hang, has a number; the next child goes on behind it. Every mutant can be made again from the name
of its target, the seed and its number::

    python -m tests.faults.mutants parquet-text --count 1000000 --seed 1
    python -m tests.faults.mutants parquet-text --seed 1 --show 4711
"""

import argparse
import collections
import copy
import json
import mmap
import os
import random
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

SECONDS, WAITING = 30, 300
"""Of a processor, and of a clock, after which a mutant hangs; other work may hold the processors."""
MEGABYTES = 1000
PER_CHILD = 2000
NUMBERS = [
    0,
    1,
    -1,
    2,
    7,
    127,
    128,
    255,
    256,
    32767,
    65535,
    65536,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**40,
    2**63 - 1,
    2**63,
    10**30,
]
TEXTS = [
    "",
    "x",
    "\0",
    "é",
    "\u202e",
    "-1",
    "[1]",
    "../x",
    "a" * 100,
    "a" * 100_000,
    "<unk>",
    " ",
    "(a+)+$",
    "\\",
    "\U0001f600",
]
VALUES = [
    None,
    True,
    False,
    [],
    {},
    [[]],
    {"a": 1},
    1.5,
    -0.5,
    1e308,
    float("nan"),
    float("inf"),
    [None],
    [1e308] * 3,
    *NUMBERS,
    *TEXTS,
]
SNIPPETS = [
    b"\xff\xfe",
    b"\0",
    b"\xed\xa0\x80",
    b"\n",
    b"\r",
    b"[[" * 2000,
    b'"',
    b"}",
    b"9" * 30,
    b"-",
    b"1e999",
    b"\xff" * 16,
]


def mutate_bytes(blob, rng):
    """A few changes of bits, bytes, lengths and numbers."""
    made = bytearray(blob)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 4, 8))):
        if not made:
            made += bytes(rng.randrange(256) for _ in range(3))
            continue
        place = rng.randrange(len(made))
        CHANGES[rng.randrange(len(CHANGES))](made, place, rng)
    return bytes(made)


def _flip(made, place, rng):
    made[place] ^= 1 << rng.randrange(8)


def _set(made, place, rng):
    made[place] = rng.randrange(256)


def _cut(made, place, rng):
    if rng.random() < 0.5:
        del made[place:]
    else:
        del made[place : place + rng.choice((1, 2, 4, 8, 64))]


def _repeat(made, place, rng):
    start = rng.randrange(len(made))
    made[place:place] = made[start : start + rng.choice((1, 4, 8, 64, 512))]


def _swap(made, place, rng):
    start, width = rng.randrange(len(made)), rng.choice((1, 4, 8, 32))
    made[place : place + width], made[start : start + width] = (
        made[start : start + width],
        made[place : place + width],
    )


def _number(made, place, rng):
    width = rng.choice((1, 2, 4, 8))
    number = rng.choice(NUMBERS) % (1 << 8 * width)
    made[place : place + width] = number.to_bytes(width, rng.choice(("little", "big")))


def _nudge(made, place, rng):
    made[place] = (made[place] + rng.choice((-2, -1, 1, 2, 16))) % 256


def _varint(made, place, rng):
    made[place : place + rng.choice((0, 1, 2))] = bytes([0xFF] * rng.choice((1, 3, 4, 8))) + bytes(
        [rng.choice((0, 1, 7, 0x0F, 0x7F))]
    )


def _snippet(made, place, rng):
    made[place:place] = rng.choice(SNIPPETS)


CHANGES = [_flip, _flip, _set, _set, _cut, _repeat, _swap, _number, _number, _nudge, _varint, _snippet]


def mutate_json(text, rng):
    """A JSON text in which a few places were changed."""
    changed = json.loads(text)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        changed = _change_place(changed, rng)
    text = json.dumps(changed, ensure_ascii=rng.random() < 0.5)
    if rng.random() < 0.05:
        depth = rng.choice((50, 130, 1100, 100_000))
        text = text.replace("null", "[" * depth + "]" * depth, 1)
    return text.encode("utf-8", "surrogatepass")


def _change_place(value, rng):
    holder, key = None, None
    inner = value
    while isinstance(inner, dict | list) and inner and rng.random() < 0.85:
        holder = inner
        key = rng.choice(list(inner)) if isinstance(inner, dict) else rng.randrange(len(inner))
        inner = inner[key]
    if holder is None:
        return copy.deepcopy(rng.choice(VALUES)) if rng.random() < 0.1 else value
    kind = rng.random()
    if kind < 0.15:
        del holder[key]
    elif kind < 0.25 and isinstance(holder, list):
        holder.insert(rng.randrange(len(holder) + 1), copy.deepcopy(inner))
    elif kind < 0.3 and isinstance(holder, dict):
        holder[rng.choice(TEXTS)] = holder.pop(key)
    elif kind < 0.45 and type(inner) in (int, float):
        holder[key] = inner * rng.choice((-1, 10**6, 0.5, 1e300, 10**20)) + rng.choice((0, 1))
    elif kind < 0.55 and isinstance(inner, str):
        holder[key] = inner[:10_000] * rng.choice((0, 2, 1000)) + rng.choice(TEXTS)
    else:
        holder[key] = copy.deepcopy(rng.choice(VALUES))
    return value


@dataclass
class Outcome:
    """What became of the mutants of a campaign."""

    target: str
    count: int = 0
    seconds: float = 0.0
    processor: float = 0.0
    harmless: int = 0
    named: int = 0
    peak_megabytes: float = 0.0
    slowest: float = 0.0
    failures: list[dict] = field(default_factory=list)

    def __str__(self):
        rate = self.count / max(self.processor, 1e-9)
        kinds = collections.Counter(one["what"] for one in self.failures)
        return (
            f"{self.target}: {self.count:,} mutants in {self.seconds:.1f} s ({self.processor:.1f} of a "
            f"processor: {rate:,.0f} a second), {self.named:,} named errors, {self.harmless:,} harmless, "
            f"slowest {self.slowest:.2f} s, peak {self.peak_megabytes:,.0f} MB, failures {dict(kinds)}"
        )


def mutant_of(target, seed, number):
    """The bytes of one mutant."""
    rng = random.Random(f"{target.name} {seed} {number}")  # noqa: S311  no secret
    return target.mutate(rng)


def run_campaign(target, count, *, seed=0, most_failures=50):
    """Run so many mutants of a target; children die, this does not."""
    outcome = Outcome(target.name)
    mutant_of(target, seed, 0)  # what it is made of, once for all children
    begun, used = time.monotonic(), _processor()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:  # noqa: S108
        shared = mmap.mmap(-1, 4096)
        number = 0
        while number < count and len(outcome.failures) < most_failures:
            number = _run_child(
                target, seed, range(number, min(count, number + PER_CHILD)), Path(folder), shared, outcome
            )
        outcome.count = number
    outcome.seconds = time.monotonic() - begun
    outcome.processor = _processor() - used
    return outcome


def _run_child(target, seed, numbers, folder, shared, outcome):
    """One child over some mutants; the number of the first that it did not see."""
    shared[: SLOTS.size] = SLOTS.pack(numbers.start, 0, 0, 0, 0.0, 0.0)
    log = folder / "failures.jsonl"
    log.write_text("")
    child = os.fork()
    if not child:
        try:
            _child(target, seed, numbers, folder, shared)
        finally:
            os._exit(77)
    _, status = os.waitpid(child, 0)
    at, done, harmless, named, peak, slowest = SLOTS.unpack(shared[: SLOTS.size])
    outcome.harmless += harmless
    outcome.named += named
    outcome.peak_megabytes = max(outcome.peak_megabytes, peak)
    outcome.slowest = max(outcome.slowest, slowest)
    outcome.failures += [json.loads(line) for line in log.read_text().splitlines()]
    if status == 0:
        return at + 1
    ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    what = "hang" if ended in (signal.SIGALRM, signal.SIGPROF) else "crash"
    outcome.failures.append({"what": what, "number": at, "detail": f"status {status}, done {done}"})
    return at + 1


SLOTS = struct.Struct("<qqqqdd")


def _child(target, seed, numbers, folder, shared):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    room = _virtual() + 2 * MEGABYTES * (1 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (room, room))
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    harmless = named = 0
    slowest = 0.0
    with (folder / "failures.jsonl").open("a") as log:
        for number in numbers:
            path = folder / target.file
            path.write_bytes(mutant_of(target, seed, number))
            shared[: SLOTS.size] = SLOTS.pack(
                number, number - numbers.start, harmless, named, _peak(), slowest
            )
            begun = time.process_time()
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            signal.setitimer(signal.ITIMER_REAL, WAITING)
            failure = _try(target, path, number)
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.setitimer(signal.ITIMER_PROF, 0)
            slowest = max(slowest, time.process_time() - begun)
            if failure in (None, "named") and _peak() > MEGABYTES:
                failure = {"what": "memory", "detail": f"{_peak():.0f} MB"}
            if failure == "named":
                named += 1
            elif failure is None:
                harmless += 1
            else:
                log.write(json.dumps({"number": number, **failure}) + "\n")
                log.flush()
                if failure["what"] == "memory":
                    break  # the peak of a process does not fall
        shared[: SLOTS.size] = SLOTS.pack(
            number, number - numbers.start + 1, harmless, named, _peak(), slowest
        )
    os._exit(0)


def _try(target, path, number):
    """None if the mutant was read, "named" for an error of ours, else what went wrong."""
    from attomaton.base.errors import AttomatonError

    try:
        target.consume(path, number)
    except AttomatonError as error:
        text = str(error)
        if len(text) > 2000:
            return {"what": "long message", "detail": text[:200]}
        asks = any(word in text for word in ("more memory", "alloc", "Out of memory"))
        if asks and not target.name.startswith("arrow"):  # where Arrow believes what a batch says of its size
            return {"what": "memory", "detail": text[:300]}
        return "named"
    except BaseException as error:  # whatever escapes is a finding
        told = traceback.format_exception_only(error)[-1].strip()[:300]
        frames = [
            frame for frame in traceback.extract_tb(error.__traceback__) if "attomaton" in frame.filename
        ]
        where = f"{frames[-1].filename.rsplit('/', 2)[-1]}:{frames[-1].lineno}" if frames else "?"
        return {"what": "traceback", "detail": f"{where} {told}"}
    return None


def _processor():
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in spent)


def _peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _virtual():
    return int(Path("/proc/self/statm").read_text().split()[0]) * 4096


def main():
    from tests.faults.targets import TARGETS

    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("target", choices=[*TARGETS, "all"])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, help="write the bytes of this mutant to standard output")
    asked = parser.parse_args()
    if asked.show is not None:
        sys.stdout.buffer.write(mutant_of(TARGETS[asked.target], asked.seed, asked.show))
        return 0
    failed = 0
    for name in TARGETS if asked.target == "all" else [asked.target]:
        outcome = run_campaign(TARGETS[name], asked.count, seed=asked.seed)
        sys.stdout.write(f"{outcome}\n")
        for one in outcome.failures[:20]:
            sys.stdout.write(f"  {json.dumps(one)}\n")
        sys.stdout.flush()
        failed |= bool(outcome.failures)
    return failed


if __name__ == "__main__":
    sys.exit(main())
