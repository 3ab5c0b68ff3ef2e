"""What files come in: gzip of one or more members, tar archives, damaged or not."""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from random import Random

from .oddities import odd_text
from .raw import mutate_bytes

_BOMB = 1 << 18


def wrap(data: bytes, random: Random) -> bytes:
    """Return `data` compressed or in an archive."""
    wrapped = random.choice(_WRAPPERS)(data, random)
    return mutate_bytes(wrapped, random) if random.random() < 0.6 else wrapped


def _gzip(data: bytes, random: Random) -> bytes:
    return gzip.compress(data, random.choice([0, 1, 9]), mtime=0)


def _members(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data) + 1)
    between = random.choice([b"", b"\0" * 20, b"garbage"])
    return _gzip(data[:at], random) + between + _gzip(data[at:], random) + between


def _twice(data: bytes, random: Random) -> bytes:
    return _gzip(_gzip(data, random), random)


def _bomb(data: bytes, random: Random) -> bytes:
    filling = random.choice([b" ", b"\0", b"[", b"1", b'"', data[:1]])
    at = random.choice([0, len(data) // 2, len(data)])
    return zlib_gzip(data[:at] + filling * _BOMB + data[at:])


def zlib_gzip(data: bytes) -> bytes:
    """Return `data` compressed quickly, without a header of Python's making."""
    compress = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    return compress.compress(data) + compress.flush()


def _tar(data: bytes, random: Random) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in _files(data, random):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            if random.random() < 0.15:
                info.size = 0
                info.type = random.choice(
                    [
                        tarfile.SYMTYPE,
                        tarfile.LNKTYPE,
                        tarfile.DIRTYPE,
                        tarfile.FIFOTYPE,
                        tarfile.CHRTYPE,
                    ]
                )
                info.linkname = random.choice(["/etc/passwd", "../../x", name])
            tar.addfile(info, io.BytesIO(content) if info.isreg() else None)
    archive = target.getvalue()
    return archive if random.random() < 0.5 else _gzip(archive, random)


def _files(data: bytes, random: Random) -> list[tuple[str, bytes]]:
    odd = odd_text(random).encode("utf-8", "replace").decode().replace("\0", "")[:200]
    names = ["trace", "../../escaped", "/tmp/escaped", "a/rank_1.json", odd or "x"]
    chosen = random.sample(names, random.choice([1, 1, 2]))
    return [(name, data) for name in chosen]


_WRAPPERS = [_gzip, _gzip, _members, _twice, _bomb, _tar, _tar]
