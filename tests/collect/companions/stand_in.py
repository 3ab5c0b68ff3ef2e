"""A companion for tests: a shell script that says it is ready, and what it saw when it is stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from pasta.collect.companions.companion import Companion, Watch
from pasta.collect.companions.options import HostOptions
from pasta.errors import CollectError

WATCHES = """
trap 'echo "{\\"left\\": 1}"; exit 0' INT
echo "$0 $1"; echo ready
while :; do sleep 0.01; done
"""


class StandIn(Companion):
    """Appends a sample for each line of its script's output.

    Attributes:
        lines: all lines that came.
    """

    name = "stand_in"
    script = WATCHES
    wrong = ""

    def __init__(self, level: str = "lines", options: HostOptions | None = None) -> None:
        super().__init__(level, options or HostOptions())
        self.lines: list[str] = []
        self.complaints: list[str] = []
        self.finished = False
        self.closed = False

    def check(self) -> None:
        if self.wrong:
            raise CollectError(self.wrong)

    def settings(self) -> Mapping[str, Any]:
        return {"misses": ["everything"]}

    def environment(self) -> Mapping[str, str]:
        return {"STAND_IN": self.level}

    def command(self, watch: Watch) -> Sequence[str]:
        self._watch = watch
        return ["bash", "-c", self.script, str(watch.target), str(watch.folder)]

    def ready(self) -> bool:
        return "ready" in self.lines

    def take(self, line: str) -> None:
        self.lines.append(line)
        if line == "nonsense":
            raise ValueError(line)
        rows = [{"pid": self._watch.target, "ts": self._watch.offset, "kind": line, "stack_id": 0}]
        self._watch.part.append("sample", pa.Table.from_pylist(rows))

    def complain(self, line: str) -> None:
        self.complaints.append(line)

    def finish(self) -> Sequence[str]:
        self.finished = True
        return ["a note"]

    def close(self) -> None:
        self.closed = True
