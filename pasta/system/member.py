"""A host of a run: it records the program there and hands its trace to the host that asked."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pasta.collect.launch import TO_END
from pasta.errors import CollectError, PastaError
from pasta.system.messages import Connection

CONNECT_SECONDS = 30.0

Record = Callable[[Mapping[str, Any], Path, Callable[[int], None]], Any]
"""Takes what is to be run, the folder of the trace, and what holds the program until it may begin;
returns a `Recorded`."""


class Member:
    """This host's end of the connection to the host that asked for the run.

    Args:
        connection: to that host.

    Attributes:
        task: what is to be run, as that host says it.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.task = connection.receive()
        self._go, self._take = threading.Event(), threading.Event()
        self._lost = ""
        self._program: int | None = None
        threading.Thread(target=self._listen, daemon=True).start()

    def hold(self, pid: int) -> None:
        """Say that all is ready; return when the program may begin on every host.

        Raises:
            CollectError: the run is given up.
        """
        self._connection.send(ready=True)
        self._program = os.pidfd_open(pid)
        self._go.wait()
        self._check()

    def hand_over(self, trace: Path, code: int, end: str) -> None:
        """Say how the program ended, and send its trace when it is asked for.

        Raises:
            CollectError: the other host is gone.
        """
        self._let_go()
        self._connection.send(ended=end, code=code)
        self._take.wait()
        self._check()
        self._connection.send(trace=True)
        try:
            with (
                self._connection.send_file() as stream,
                tarfile.open(fileobj=stream, mode="w|") as archive,
            ):
                archive.add(trace, ".")
            self._connection.end_sending()
        except OSError as error:
            raise CollectError(
                f"{self._connection.peer}: connection lost ({error.strerror})"
            ) from error

    def give_up(self, why: str) -> None:
        """Say that nothing was recorded, if anybody still listens."""
        with contextlib.suppress(CollectError):
            self._connection.send(failed=why)

    def _check(self) -> None:
        if self._lost:
            raise CollectError(self._lost)

    def _listen(self) -> None:
        """Answer what comes until the connection ends, and end the program with it."""
        try:
            while True:
                message = self._connection.receive()
                if "ask" in message:
                    self._connection.send(time=time.monotonic_ns())
                elif "signal" in message:
                    self._pass_on(int(message["signal"]))
                elif "kill" in message:
                    self._kill()
                elif "go" in message:
                    self._go.set()
                elif "take" in message:
                    self._take.set()
        except (CollectError, OSError) as error:
            self._lost = str(error)
            self._go.set()
            self._take.set()
            self._pass_on(signal.SIGTERM)

    def _pass_on(self, number: int) -> None:
        """Pass a signal on to the program by way of this process, which minds it."""
        if self._program is not None:
            os.kill(os.getpid(), number)

    def _kill(self) -> None:
        program = self._program  # it may end meanwhile
        with contextlib.suppress(OSError):
            if program is not None:
                signal.pidfd_send_signal(program, signal.SIGKILL)

    def _let_go(self) -> None:
        """Take it that the program has ended."""
        program, self._program = self._program, None
        if program is not None:
            os.close(program)


def _heard_too_late(_number: int, _frame: object) -> None:
    """Take a signal that was for a program which has just ended, or has not begun."""


def take_part(address: str, name: str, token: str, nodes: Any, record: Record) -> int:
    """Take part in a run; return the exit code.

    Args:
        address: `host:port` of the host that asked.
        name: which entity of the system this is.
        token: what that host knows its members by.
        nodes: what is known of this host, for the system's graph.
        record: what records the program.

    Raises:
        CollectError: that host cannot be reached, or is lost; a trace that was recorded stays here then.
    """
    connection = Connection(_connected(address), f"pasta system run at {address}")
    try:
        connection.send(name=name, token=token, nodes=nodes)
        member = Member(connection)
        folder = Path(tempfile.mkdtemp(prefix=f"pasta-{name}-"))
        trace = folder / "trace"
        if threading.current_thread() is threading.main_thread():
            for number in TO_END:
                signal.signal(number, _heard_too_late)
        try:
            recorded = record(member.task, trace, member.hold)
        except PastaError as error:
            shutil.rmtree(folder)
            member.give_up(str(error))
            return error.exit_code
        try:
            member.hand_over(trace, recorded.exit_code, str(recorded.end))
        except CollectError as error:
            raise CollectError(f"{error}; the trace of {name} stays in {trace}") from error
        shutil.rmtree(folder)
        return int(recorded.exit_code)
    finally:
        connection.close()


def _connected(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    try:
        stream = socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS)
    except (OSError, ValueError) as error:
        raise CollectError(
            f"{address}: cannot be reached ({error}); name an address that hosts can reach by --address"
        ) from error
    stream.settimeout(None)
    return stream
