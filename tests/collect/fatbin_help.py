"""What a fatbin holds."""

from __future__ import annotations

import re
import struct
from pathlib import Path

_FLAGS_AT = 48


def architectures(fatbin: Path) -> list[str]:
    """Return the compute capability, as `90`, of each ELF image, which its `e_flags` name.

    That is in their second byte since CUDA 13, and in their first one before.
    """
    content = fatbin.read_bytes()
    images = [found.start() for found in re.finditer(b"\x7fELF", content)]
    flags = [struct.unpack_from("<I", content, image + _FLAGS_AT)[0] for image in images]
    return [str(flag >> 8 & 0xFF if flag >> 8 & 0xFF > 10 else flag & 0xFF) for flag in flags]
