"""Record a PyTorch program on any device: operators, modules, phases, storages and touches.

    import pasta.collect.torch

    with pasta.collect.torch.record("run1") as recorder:
        train()
    recorder.trace().scan("span")

Operators are seen below autograd, so that those of the backward pass and of the optimizer are
seen too. What each row means, what recording costs and cannot see: docs/collectors/torch.md.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pasta.collect.collectors import parse_with
from pasta.collect.target import session as sessions
from pasta.collect.target.ranks import RUN, process_name, run_id
from pasta.collect.target.torch.collector import TOUCH, TorchCollector
from pasta.errors import CollectError, TraceError

if TYPE_CHECKING:
    from pasta.collect.target.torch.operators import Listener
    from pasta.trace import Trace


@contextlib.contextmanager
def record(name: str, out: str | Path | None = None, *, level: str = TOUCH) -> Iterator[Recorder]:
    """Record what PyTorch does inside the block, as a trace.

    A process of its own writes the trace, so that a program that is killed leaves what it
    recorded. An exception of the program ends the trace properly and passes on. A failure of the
    recorder never reaches the program: the hook that failed is switched off and counted in `loss`.

    Args:
        name: name of the run, which is the outermost span.
        out: folder of the trace; without it `pasta-NAME` in the working directory, one for all
            ranks where the environment says that there are several.
        level: `operators`, `timeline` or `touch`; see docs/collectors/torch.md.

    Yields:
        The recorder: `step()` inside the block, `path` and `trace()` after it.

    Raises:
        CollectError: PyTorch is not installed, there is no such level, or something records this
            program already.
        TraceError: `out` holds something.
    """
    if sessions.current() is not None:
        raise CollectError(
            f"record({name!r}): this program is being recorded already; end it first"
        )
    if importlib.util.find_spec("torch") is None:
        raise CollectError(f"record({name!r}): PyTorch is not installed; pip install torch")
    parse_with([f"torch:{level}"])
    path = Path(out) if out else Path(f"pasta-{name}")
    recorder = Recorder(name, path.absolute(), level)
    ended = "exit 0"
    try:
        yield recorder
    except BaseException as error:
        ended = type(error).__name__
        raise
    finally:
        recorder.finish(ended)


class Recorder:
    """One recording of this process.

    Attributes:
        path: the folder of the trace, absolute, as the program may change its own folder.
        session: what records this process.
    """

    def __init__(self, name: str, path: Path, level: str) -> None:
        self.path = path
        self._pid = os.getpid()
        self._attendant, answer = _start_attendant(path, level)
        self.session = sessions.Session(answer["folder"], answer["settings"], name)
        sessions.install(self.session)
        self._collector = TorchCollector(self.session, answer["settings"]["torch"])
        self.session.add_collector(self._collector)

    def step(self) -> None:
        """Begin a step here; from the first call on, optimizers no longer end steps."""
        self.session.step()

    def listen(self, listener: Listener) -> None:
        """Let a listener hear of operators before and after they run, at level `touch`."""
        self._collector.listen(listener)

    def trace(self) -> Trace:
        """Open the trace, which is complete once the block has ended."""
        from pasta.trace import Trace

        return Trace.open(self.path)

    def finish(self, ended: str) -> None:
        """Close all spans and complete the trace; a failure is a warning to the program."""
        if os.getpid() != self._pid:
            return
        self.session.close()
        sessions.install(None)
        told = json.dumps({"ended": ended}) + "\n"
        _, errors = self._attendant.communicate(told.encode())
        if self._attendant.returncode:
            why = _last_line(errors) or f"its writer ended with {self._attendant.returncode}"
            warnings.warn(f"{self.path}: the trace is incomplete: {why}", stacklevel=4)


def _start_attendant(path: Path, level: str) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
    """Start the process that writes the trace; return it and what it answers."""
    command = sessions.command_line()
    arguments = [str(path), command, json.dumps({"torch": level}), str(os.getpid())]
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in (sessions.CHANNEL, sessions.SETTINGS)
    }
    if run_id(environment) is None:  # the ranks of a run have the program's parent in common
        environment[RUN] = process_name(os.getppid())
    attendant = subprocess.Popen(  # noqa: S603 - our own module; values are its arguments
        [sys.executable, "-m", "pasta.collect.attend", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    assert attendant.stdout is not None  # noqa: S101
    line = attendant.stdout.readline()
    answer: dict[str, Any] = json.loads(line) if line else {}
    if "folder" not in answer:
        _, errors = attendant.communicate()
        if answer.get("of_trace"):
            raise TraceError(answer["error"])
        raise CollectError(answer.get("error") or _last_line(errors))
    return attendant, answer


def _last_line(errors: bytes) -> str:
    return errors.decode(errors="replace").strip().rpartition("\n")[2]
