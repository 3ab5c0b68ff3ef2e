"""Files of a user that are there whole or not at all."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield the name to write a file under; it gets its own when the block ends, and goes where that fails.

    The name is one that nobody else has.

    Raises:
        OSError: the file cannot take its name; and what the block raises.
    """
    temporary = path.with_name(f".pasta-{secrets.token_hex(8)}")
    try:
        yield temporary
        temporary.rename(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
