"""What hosts of a run tell each other: lines of JSON over one connection, then a trace's bytes."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from typing import Any

from pasta.errors import CollectError

_LONGEST_LINE = 1 << 22
_SILENT_SECONDS, _ASKED_SECONDS, _ASKED = 15, 5, 3
_GONE_SECONDS = _SILENT_SECONDS + _ASKED_SECONDS * _ASKED
"""The other end is gone where it leaves as many questions unanswered after so much silence."""


class Connection:
    """One end of a connection; messages may be sent by several threads.

    Args:
        stream: a connected socket, which this owns.
        peer: who is at the other end, for messages.
    """

    def __init__(self, stream: socket.socket, peer: str) -> None:
        for level, option, value in (
            (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _SILENT_SECONDS),
            (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _ASKED_SECONDS),
            (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _ASKED),
            (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * _GONE_SECONDS),
        ):
            stream.setsockopt(level, option, value)
        self._stream = stream
        self._input = stream.makefile("rb")
        self._sending = threading.Lock()
        self.peer = peer

    def send(self, **message: Any) -> None:
        """Send a message.

        Raises:
            CollectError: the other end is gone.
        """
        line = json.dumps(message).encode() + b"\n"
        try:
            with self._sending:
                self._stream.sendall(line)
        except OSError as error:
            raise CollectError(f"{self.peer}: connection lost ({error.strerror})") from error

    def receive(self) -> dict[str, Any]:
        """Return the next message.

        Raises:
            CollectError: the other end is gone, or sends something else.
        """
        try:
            line = self._input.readline(_LONGEST_LINE)
        except OSError as error:
            raise CollectError(f"{self.peer}: connection lost ({error.strerror})") from error
        if not line.endswith(b"\n"):
            raise CollectError(f"{self.peer}: connection lost")
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise CollectError(f"{self.peer}: sent what is no message") from error
        if not isinstance(message, dict):
            raise CollectError(f"{self.peer}: sent what is no message")
        return message

    def send_file(self) -> Any:
        """Return a file to write bytes to that follow the messages."""
        return self._stream.makefile("wb")

    def receive_file(self) -> Any:
        """Return the file of the bytes that follow the messages."""
        return self._input

    def end_sending(self) -> None:
        """Tell the other end that nothing follows."""
        self._stream.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the connection; threads that wait for the other end find it gone."""
        with contextlib.suppress(OSError):
            self._stream.shutdown(socket.SHUT_RDWR)
        self._input.close()
        self._stream.close()
