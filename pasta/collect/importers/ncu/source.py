"""Which source line each instruction is of, from ncu's page `--print-source cuda,sass`."""

from __future__ import annotations

import re

_FILE, _FUNCTION, _LINE = "File Path", "Function Name", "Line No"
_ADDRESS_COLUMN = 2
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{1,16}")


class SourceLines:
    """The lines of the instructions that the page tells of, by address."""

    def __init__(self) -> None:
        self._lines: dict[int, str] = {}
        self._doubtful: set[int] = set()
        self._file = self._line = ""
        self._columns = 0

    def take(self, fields: list[str]) -> bool:
        """Take a line of the page; tell whether it was one.

        Under each line of source stand the instructions that were made of it: `"","",address,...`.
        """
        if fields[0] == _FILE and len(fields) > 1:
            self._file, self._line, self._columns = fields[1], "", 0
        elif fields[0] == _LINE:
            self._columns = len(fields) if len(fields) > _ADDRESS_COLUMN else 0
        elif self._columns and len(fields) == self._columns:
            self._line = fields[0] or self._line
            if self._line and _ADDRESS.fullmatch(fields[_ADDRESS_COLUMN]):
                self._add(int(fields[_ADDRESS_COLUMN], 16))
        elif fields[0] != _FUNCTION:
            self._columns = 0
            return False
        return True

    def of(self, address: int) -> str | None:
        """Return `file:line`; `None`: unknown, or told differently of several processes."""
        return None if address in self._doubtful else self._lines.get(address)

    def _add(self, address: int) -> None:
        line = f"{self._file}:{self._line}"
        if self._lines.setdefault(address, line) != line:
            self._doubtful.add(address)
