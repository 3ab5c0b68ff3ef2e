"""Fuzzing by hand: `python -m tests.fuzz.many --inputs 1000000 --jobs 2`.

Each input follows from the importer's name and a number, so that `--again IMPORTER NUMBER` repeats it.
Nothing that an input does ends the run: what it raises is noted, and a process that it ends or keeps
is started anew. Every importer gets the same time, and the readers of containers three times as much.
"""

# ruff: noqa: T201 (its output is what it is for)
from __future__ import annotations

import argparse
import contextlib
import gc
import multiprocessing
import sys
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random
from typing import Any

from .decoders import CONTAINER
from .guards import limit_memory, peak_bytes
from .judge import Judge
from .tally import Tally, table, told
from .targets import Target, targets

MEMORY_MAX = 500 << 20
"""Of a process, however many inputs it reads, in bytes held at once."""

_ADDRESSES_MORE = 4 << 30
_CHUNK = 200
_CONTAINERS_MORE = 3
_THOROUGH_EVERY = 25
_STUCK_SECONDS = 120.0
_TELL_SECONDS = 60.0


def make(target: Target, number: int) -> Any:
    """Return the input of that number."""
    return target.make(Random(f"{target.name}:{number}"))


def judge_some(target: Target, judge: Judge, numbers: range, progress: Any) -> Tally:
    """Read inputs and return what became of them; `progress` holds the number of the one at work."""
    tally = Tally()
    for number in numbers:
        progress.value = number
        started = time.process_time()
        try:
            thorough = number % _THOROUGH_EVERY == 0
            verdict = judge.judge(target.importer, make(target, number), thorough=thorough)
            tally.outcomes[verdict.outcome] += 1
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is a finding
            tally.note(told(error), number)
        tally.time(time.process_time() - started, number)
        tally.peak = peak_bytes()
        if tally.peak > MEMORY_MAX:
            tally.note(f"the process held more than {MEMORY_MAX >> 20} MiB", number)
            break
    return tally


def _work(pipe: Connection, progress: Any, corpus: Path | None, scratch: Path) -> None:
    """Take importers and numbers of inputs from a pipe, and answer each with a tally."""
    known = _targets(corpus)
    judges: dict[str, Judge] = {}
    with tempfile.TemporaryDirectory(dir=scratch) as own:
        for name, target in known.items():
            folder = Path(own, name)
            folder.mkdir()
            judges[name] = target.judge(folder)
            judges[name].judge(target.importer, target.seeds[0])  # imports what is imported late
        gc.freeze()
        limit_memory(_ADDRESSES_MORE)
        pipe.send(Tally())
        while (task := pipe.recv()) is not None:
            name, numbers = task
            tally = judge_some(known[name], judges[name], numbers, progress)
            pipe.send(tally)
            if tally.peak > MEMORY_MAX:
                break


def _targets(corpus: Path | None) -> dict[str, Target]:
    found = targets()
    if corpus is not None:
        for name, target in found.items():
            target.add_corpus(corpus / name)
    return found


@dataclass
class _Worker:
    """A process that reads inputs."""

    process: Any
    pipe: Connection
    progress: Any
    task: tuple[str, range] | None = None
    last: int = -1
    since: float = 0.0

    @classmethod
    def start(cls, corpus: Path | None, scratch: Path) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        progress = context.Value("q", -1, lock=False)
        given = (theirs, progress, corpus, scratch)
        process = context.Process(target=_work, args=given, daemon=True)
        process.start()
        theirs.close()
        return cls(process, ours, progress, since=time.monotonic())

    def is_stuck(self) -> bool:
        """Tell whether the worker has been at one input for too long."""
        now = time.monotonic()
        if self.progress.value != self.last:
            self.last, self.since = self.progress.value, now
        return now - self.since > _STUCK_SECONDS


class _Run:
    """A run of many inputs by some processes."""

    def __init__(self, names: list[str], options: argparse.Namespace, scratch: Path) -> None:
        self.tallies = {name: Tally() for name in names}
        self._given = dict.fromkeys(names, 0)
        self._first = options.first
        self._until = time.monotonic() + options.seconds
        self._again: list[tuple[str, range]] = []
        self._left = options.inputs
        self._places = (options.corpus, scratch)
        self._workers = [_Worker.start(*self._places) for _ in range(options.jobs)]
        self._told = time.monotonic()

    def run(self) -> None:
        """Read all inputs."""
        while self._workers:
            ready = wait([worker.pipe for worker in self._workers], timeout=1.0)
            for worker in list(self._workers):
                if worker.pipe in ready:
                    self._hear(worker)
                elif worker.is_stuck():
                    worker.process.kill()
            self._tell()

    def end(self) -> None:
        """End the processes that are left where the run was interrupted."""
        for worker in self._workers:
            worker.process.kill()
            worker.process.join()

    def _hear(self, worker: _Worker) -> None:
        """Take a worker's answer and give it more, or start another in place of one that ended."""
        try:
            tally = worker.pipe.recv()
        except (EOFError, OSError):
            self._replace(worker)
            return
        if worker.task is not None:
            self._add(worker.task[0], tally)
        worker.task = self._next_task()
        try:
            worker.pipe.send(worker.task)
        except OSError:
            self._replace(worker)
            return
        if worker.task is None:
            self._workers.remove(worker)
            worker.process.join()

    def _add(self, name: str, tally: Tally) -> None:
        """Take over what a worker counted, and tell of failures of a new kind at once."""
        known = self.tallies[name]
        for failure in tally.findings.keys() - known.findings.keys():
            print(f"{name} {tally.findings[failure][0]}: {failure}", file=sys.stderr, flush=True)
        known.add(tally)

    def _replace(self, worker: _Worker) -> None:
        """Note the input that ended a worker, and leave it out of what is given to another."""
        self._workers.remove(worker)
        worker.process.join()
        if worker.task is None:
            raise RuntimeError("a worker ended before its first input")
        name, numbers = worker.task
        number = worker.progress.value
        if number in numbers:
            how = f"ended the process with code {worker.process.exitcode}"
            found = Tally()
            found.note(how, number)
            self._add(name, found)
            parts = (range(numbers.start, number), range(number + 1, numbers.stop))
            self._again += [(name, part) for part in parts if part]
        self._workers.append(_Worker.start(*self._places))

    def _next_task(self) -> tuple[str, range] | None:
        if self._again:
            return self._again.pop()
        if self._left <= 0 or time.monotonic() > self._until:
            return None
        name = min(self.tallies, key=self._expected_seconds)
        start, count = self._given[name], min(_CHUNK, self._left)
        self._given[name] += count
        self._left -= count
        return name, range(self._first + start, self._first + start + count)

    def _expected_seconds(self, name: str) -> float:
        """Return the time that an importer has taken, with what it has been given since, by weight."""
        tally = self.tallies[name]
        each = tally.seconds / tally.inputs if tally.inputs else 0.01
        return self._given[name] * each / (_CONTAINERS_MORE if name.startswith(CONTAINER) else 1)

    def _tell(self) -> None:
        if time.monotonic() - self._told > _TELL_SECONDS:
            self._told = time.monotonic()
            done = sum(tally.inputs for tally in self.tallies.values())
            failures = sum(len(tally.findings) for tally in self.tallies.values())
            print(f"{done:,} inputs, {failures} kinds of failures", file=sys.stderr, flush=True)


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.fuzz.many")
    parser.add_argument("--inputs", type=int, default=100_000, help="of all importers together")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no more after so long")
    parser.add_argument("--first", type=int, default=0, help="number of the first input of each")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--corpus", type=Path, help="folder with more seeds: IMPORTER/FILE")
    parser.add_argument("--again", nargs=2, metavar=("IMPORTER", "NUMBER"), help="repeat one input")
    parser.add_argument("--save", type=Path, help="with --again: folder to write the input to")
    parser.add_argument("importers", nargs="*", help="all of them by default")
    arguments = parser.parse_args()
    if arguments.again:
        name, number = arguments.again
        again(_targets(arguments.corpus)[name], int(number), arguments.save)
        return
    names = arguments.importers or list(targets())
    started = time.monotonic()
    memory = Path("/dev/shm")  # files that live for a millisecond need no disk
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as scratch:
        run = _Run(names, arguments, Path(scratch))
        with contextlib.suppress(KeyboardInterrupt):
            run.run()
        run.end()
    print(*table(run.tallies), sep="\n")
    print(f"\n{time.monotonic() - started:.0f} s by {arguments.jobs} processes")
    findings = [
        f"{name} {numbers[0]}: {failure} ({len(numbers)} times)"
        for name, tally in run.tallies.items()
        for failure, numbers in tally.findings.items()
    ]
    print(*findings, sep="\n")
    sys.exit(1 if findings else 0)


def again(target: Target, number: int, save: Path | None) -> None:
    """Read one input once more, and let out what it raises."""
    content = make(target, number)
    if save is not None:
        print(content.put(save))
    with tempfile.TemporaryDirectory() as folder:
        print(target.judge(Path(folder)).judge(target.importer, content))


if __name__ == "__main__":
    main()
