"""The analysis process of a program that records itself: `python -m pasta.collect.attend OUT`.

It answers with one line of JSON, the channel's folder and the settings, and takes what is written
until its input ends, which happens whatever ends the program. A line of JSON on its input says how
the program left the recorded block.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any

from pasta.collect.recording import Reception, Selection
from pasta.errors import PastaError

KILLED = "the program ended without leaving the recorded block"


def attend(out: Path, command: str, chosen: dict[str, str]) -> None:
    """Receive what the program writes that started this process; return when it is complete."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Reception(out, command, chosen, Selection()) as reception:
        _answer({"folder": str(reception.channel.folder), "settings": reception.settings()})
        told = b""
        while True:
            reception.receive()
            if select.select([sys.stdin.fileno()], [], [], 0)[0]:
                read = os.read(sys.stdin.fileno(), 1 << 16)
                told += read
                if not read:
                    break
        reception.receive_rest()
        reception.finish(json.loads(told)["ended"] if told else KILLED, {})


def _answer(content: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        attend(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))
    except PastaError as failure:
        _answer({"error": str(failure)})
        sys.exit(failure.exit_code)
