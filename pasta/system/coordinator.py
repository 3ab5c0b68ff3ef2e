"""One run on several hosts: started through their launchers, begun together, its traces brought here."""

from __future__ import annotations

import contextlib
import hmac
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pasta.collect.launch import TO_END
from pasta.errors import CollectError
from pasta.system.clocks import Reading, read_clock
from pasta.system.graph import Entity, System
from pasta.system.messages import Connection

_SHELLS = frozenset({"ssh", "rsh"})
"""Launchers that hand their arguments to a shell as one text."""
_HELLO_SECONDS = 10.0
_LOOK_SECONDS = 0.1
_END_SECONDS = 10.0
_KILL_SECONDS = 30.0
"""How long programs may take to end, when another one has failed, before they are killed."""


@dataclass
class Participant:
    """A host of the run, and what came of it there.

    Attributes:
        entity: the host.
        trace: where its trace lies once it is here.
        nodes: what it knows of itself, as it says it.
        before: its clock before the program began.
        after: its clock after the program ended.
        end: how the program ended; empty: that is not known.
        code: the exit code of the recording; `None`: not known.
        problem: what went wrong; empty: nothing.
        launcher: the process that was started to reach it.
        connection: to its member; `None` before it has answered.
    """

    entity: Entity
    trace: Path
    nodes: Any = None
    before: Reading | None = None
    after: Reading | None = None
    end: str = ""
    code: int | None = None
    problem: str = ""
    launcher: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    connection: Connection | None = field(default=None, repr=False)


class Coordinator:
    """Runs a program on all hosts of a system.

    Args:
        system: the hosts.
        tasks: entity's name -> what its member is to do.
        folder: where the traces go, one folder for each entity.
        address: by which hosts reach this one; empty: this host's name.
        wait_seconds: how long hosts may take to answer.
        keep_going: let the other programs go on where one fails; else they are asked to end, and killed if
            they do not.

    Attributes:
        failed: the host whose program failed first, or that was lost first; `None`: there is none.
    """

    def __init__(
        self,
        system: System,
        tasks: Mapping[str, Mapping[str, Any]],
        folder: Path,
        *,
        address: str = "",
        wait_seconds: float = 60.0,
        keep_going: bool = False,
    ) -> None:
        self.failed: Participant | None = None
        self._keep_going = keep_going
        self._kill_at = 0.0
        self._begun = threading.Event()
        self._tasks = tasks
        self._token = secrets.token_hex(32)
        self._wait_seconds = wait_seconds
        self._participants = [
            Participant(entity, folder / entity.name) for entity in system.entities
        ]
        self._barrier = threading.Barrier(len(self._participants), self._begun.set)
        local = not any(entity.launch for entity in system.entities)
        self._listening = socket.create_server(("127.0.0.1" if local else "", 0), backlog=128)
        host = address or ("127.0.0.1" if local else socket.gethostname())
        self._address = f"{host}:{self._listening.getsockname()[1]}"

    def run(self) -> Sequence[Participant]:
        """Run the program everywhere and return what came of it on each host.

        Raises:
            CollectError: a host did not answer, or cannot record; nothing has run then.
        """
        try:
            with self._signals_passed_on():
                self._launch()
                self._await_all()
                threads = [
                    threading.Thread(target=self._converse, args=(participant,), daemon=True)
                    for participant in self._participants
                ]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    while thread.is_alive():
                        thread.join(_LOOK_SECONDS)
                        self._kill_late_ones()
        finally:
            self._close()
        self._check_begun()
        return self._participants

    def _launch(self) -> None:
        for participant in self._participants:
            words = self._member_command(participant.entity)
            try:
                launcher = subprocess.Popen(words, stdin=subprocess.PIPE)  # noqa: S603 - the user's own
            except OSError as error:
                raise CollectError(
                    f"{participant.entity.name}: {words[0]} cannot be run ({error.strerror});"
                    " look at its `launch`"
                ) from error
            participant.launcher = launcher
            assert launcher.stdin is not None  # noqa: S101
            with contextlib.suppress(BrokenPipeError), launcher.stdin as given:
                given.write(f"{self._token}\n".encode())

    def _member_command(self, entity: Entity) -> list[str]:
        own = () if entity.launch else (sys.executable, "-m", "pasta")
        member = [*(entity.pasta or own or ("pasta",))]
        member += ["system", "member", self._address, entity.name]
        if entity.launch and Path(entity.launch[0]).name in _SHELLS:
            return [*entity.launch, shlex.join(member)]
        return [*entity.launch, *member]

    def _await_all(self) -> None:
        """Accept connections until every host has answered."""
        until = time.monotonic() + self._wait_seconds
        self._listening.settimeout(_LOOK_SECONDS)
        while missing := [each for each in self._participants if each.connection is None]:
            with contextlib.suppress(TimeoutError):
                self._greet(self._listening.accept()[0])
            for participant in missing:
                launcher = participant.launcher
                code = launcher.poll() if launcher and not participant.connection else None
                if code is not None:
                    raise CollectError(
                        f"{participant.entity.name}: its launcher ended with exit code {code} before"
                        " pasta answered; what it wrote stands above"
                    )
            if time.monotonic() > until:
                names = ", ".join(each.entity.name for each in missing[:3])
                raise CollectError(
                    f"{names}: no answer within {self._wait_seconds:g} s; look at `launch`, and whether"
                    f" {self._address} can be reached from there (--address, --wait)"
                )

    def _greet(self, stream: socket.socket) -> None:
        """Take the first message of a connection; close it where it is none of this run's hosts."""
        stream.settimeout(_HELLO_SECONDS)
        connection = Connection(stream, "a host")
        try:
            hello = connection.receive()
        except CollectError:
            connection.close()
            return
        known = {each.entity.name: each for each in self._participants}
        participant = known.get(str(hello.get("name")))
        is_own = hmac.compare_digest(str(hello.get("token")).encode(), self._token.encode())
        if not is_own or participant is None or participant.connection is not None:
            connection.close()
            return
        stream.settimeout(None)
        connection.peer = participant.entity.name
        participant.connection = connection
        participant.nodes = hello.get("nodes")

    def _converse(self, participant: Participant) -> None:
        """Go through the run with one host; what fails there ends the wait of all others."""
        connection = participant.connection
        assert connection is not None  # noqa: S101
        try:
            connection.send(**self._tasks[participant.entity.name])
            participant.before = read_clock(connection)
            _answer(connection)
            self._barrier.wait()
            connection.send(go=True)
            answer = _answer(connection)
            participant.end, participant.code = str(answer["ended"]), int(answer["code"])
            if participant.code:
                self._end_others(participant)
            participant.after = read_clock(connection)
            connection.send(take=True)
            connection.receive()
            _unpack(connection, participant.trace)
        except threading.BrokenBarrierError:
            pass
        except (
            CollectError,
            OSError,
            tarfile.TarError,
            LookupError,
            TypeError,
            ValueError,
        ) as error:
            participant.problem = str(error)
            if self._begun.is_set():
                self._end_others(participant)
            else:
                self._barrier.abort()

    def _end_others(self, failed: Participant) -> None:
        """Ask the programs of all other hosts to end, as one failed: they may wait for it for ever."""
        if self.failed is not None:
            return
        self.failed = failed
        if not self._keep_going:
            self._kill_at = time.monotonic() + _KILL_SECONDS
            self._tell_all(signal=signal.SIGTERM)

    def _kill_late_ones(self) -> None:
        """Kill the programs that were asked to end and have not, when that was long ago."""
        if self._kill_at and time.monotonic() > self._kill_at:
            self._kill_at = 0.0
            self._tell_all(kill=True)

    def _tell_all(self, **message: Any) -> None:
        """Send a message to all hosts whose programs may run still."""
        for participant in self._participants:
            running = participant.code is None and not participant.problem
            if running and participant.connection is not None:
                with contextlib.suppress(CollectError):
                    participant.connection.send(**message)

    def _check_begun(self) -> None:
        """Raise what kept the program from being begun."""
        if not self._begun.is_set():
            failed = next(each for each in self._participants if each.problem)
            problem = failed.problem.removeprefix(f"{failed.entity.name}: ")
            raise CollectError(f"{failed.entity.name}: {problem}")

    @contextlib.contextmanager
    def _signals_passed_on(self) -> Iterator[None]:
        """Pass signals on to the programs; before they run, a signal ends the run."""

        def pass_on(number: int, _frame: object) -> None:
            if not self._begun.is_set():
                raise CollectError("interrupted before the programs began")
            self._tell_all(signal=number)

        handlers = {number: signal.signal(number, pass_on) for number in TO_END}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _close(self) -> None:
        """Close all connections, which ends what still runs, and wait for the launchers."""
        self._listening.close()
        for participant in self._participants:
            if participant.connection is not None:
                participant.connection.close()
        until = time.monotonic() + _END_SECONDS
        for participant in self._participants:
            launcher = participant.launcher
            if launcher is None:
                continue
            try:
                launcher.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                launcher.terminate()
                launcher.wait()


def _answer(connection: Connection) -> dict[str, Any]:
    """Return a host's answer.

    Raises:
        CollectError: it says that it failed, or is gone.
    """
    answer = connection.receive()
    if "failed" in answer:
        raise CollectError(str(answer["failed"]))
    return answer


def _unpack(connection: Connection, folder: Path) -> None:
    """Write the trace that a host sends."""
    folder.mkdir(parents=True)
    with tarfile.open(fileobj=connection.receive_file(), mode="r|") as archive:
        archive.extractall(folder, filter="data")
