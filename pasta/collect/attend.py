"""The analysis process of a program that records itself: `python -m pasta.collect.attend`.

It answers with one line of JSON, the channel's folder and the settings, and takes what is written
until a line of JSON on its input says how the program left the recorded block, or the program has
ended without one. The end of the input alone is no sign: children of the program hold it open.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any

from pasta.collect.recording import Reception
from pasta.collect.selection import Selection
from pasta.errors import PastaError, TraceError

KILLED = "the program ended without leaving the recorded block"


def attend(out: Path, command: str, chosen: dict[str, str], program: int) -> str:
    """Receive what the program writes that started this process, until it is complete.

    Args:
        out: the trace.
        command: what is recorded, for people.
        chosen: collector -> level.
        program: process id of the program.

    Returns:
        Why part of it could not be written; empty: all was.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Reception(out, command, chosen, Selection()) as reception:
        _answer({"folder": str(reception.channel.folder), "settings": reception.settings()})
        told = b""
        while not told.endswith(b"\n") and os.getppid() == program:
            reception.receive()
            if select.select([sys.stdin.fileno()], [], [], 0)[0]:
                read = os.read(sys.stdin.fileno(), 1 << 16)
                told += read or b"\n"
        reception.receive_rest()
        reception.finish(json.loads(told)["ended"] if told.strip() else KILLED)
        return reception.receiver.failure


def _answer(content: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        failure = attend(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4]))
    except PastaError as error:
        _answer({"error": str(error), "of_trace": isinstance(error, TraceError)})
        raise SystemExit(error.exit_code) from error
    raise SystemExit(failure or 0)
