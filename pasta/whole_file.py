"""Files that are there whole or not at all, whoever reads them meanwhile."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_PREFIX = ".pasta-"
UNFINISHED = _PREFIX + 16 * "[0-9a-f]"
"""What the names of files match that are being written, or were when their writer was killed."""


@contextlib.contextmanager
def whole_file(path: Path, *, new: bool = False) -> Iterator[Path]:
    """Yield the name to write a file under; it gets its own when the block ends, and goes where that fails.

    The name is one that nobody else has.

    Args:
        path: the file's own name.
        new: take the place of no file: of several that write one at once, one succeeds.

    Raises:
        FileExistsError: with `new`, there is a file of that name.
        OSError: the file cannot take its name; and what the block raises.
    """
    temporary = path.with_name(f"{_PREFIX}{secrets.token_hex(8)}")
    try:
        yield temporary
        if new:
            _name_anew(temporary, path)
        else:
            temporary.rename(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _name_anew(temporary: Path, path: Path) -> None:
    """Give a file a name that none has; where the file system knows no links, an empty one has it first."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:
        path.open("x").close()
        temporary.rename(path)
    else:
        temporary.unlink()


def write_json(path: Path, content: Mapping[str, Any], *, new: bool = False) -> None:
    """Write a whole file of JSON in place of what has that name; `new`: of nothing.

    Raises:
        FileExistsError: with `new`, something has that name.
        OSError: it cannot be written.
    """
    with whole_file(path, new=new) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
