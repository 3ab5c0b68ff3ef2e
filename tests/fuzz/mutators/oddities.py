"""Values that readers stumble over, whatever the container."""

from __future__ import annotations

from random import Random
from typing import Any

INTEGERS = [
    *(0, 1, -1, 2, 7, 20, 127, 128, 255, 256, 65_535, 65_536),
    *(sign * (1 << power) + step for power in (31, 32, 53, 62, 63, 64, 70) for sign in (1, -1) for step in (-1, 0, 1)),
    *(10**18, 4_611_686_018_427_387_904, 10_159_970_886_766_084_423, 10**25, -(10**25), 10**400),
]  # fmt: skip

FLOATS = [
    *(0.0, -0.0, 0.1, -0.5, 1e-320, 1e15, 1e18 + 0.5, 9.3e18, 1e19, 1e300, -1e300),
    *(float("inf"), float("-inf"), float("nan"), 1672924881307000.123, 0.0005, 2.5e-3),
]

NUMBER_TEXTS = [
    *("", "0", "-0", "00", "+1", "-1", "1.", ".5", "1e5", "1E400", "-1e-400", "0x10", "1_000"),
    *("1,5", "1.234.567", "NaN", "nan", "inf", "-Infinity", "Infinity", "null", "None", "true"),
    *("9223372036854775807", "9223372036854775808", "18446744073709551616", "-9223372036854775809"),
    *("1672924881307000.123", "100.7000000000000000000001", "9" * 25, "9" * 400, "9" * 5000),
    *("1." + "3" * 400, "0." + "0" * 300 + "1", "1e99999999", "-1e99999999", "١٢٣", "1 2", "½", "²"),
]  # fmt: skip

TEXTS = [
    *("", " ", "\0", "a\0b", "\n", "\r\n", "\t", '"', "'", "\\", '\\"', "a" * 300, "x" * 70_000),
    *("\ufeff", "\ufffd", "\ud800", "\udfff\ud800", "\U0010ffff", "é" * 40, "\u202eabc", "\x1b[31m"),
    *("../../../../etc/passwd", "/etc/passwd", "/dev/zero", "file:///etc/passwd", "C:\\x\\y.py"),
    *("stream 7", "7", "-7", "0x7f00deadbeef", "%s%n{0}{x}", "$(touch x)", "=1+1", "torch\\cuda\\x.py"),
    *("'; DROP TABLE x; --", "<script>", "{", "[", "]", "}", ",", ":", ";", "true", "null", "NaN"),
    *("void f<int, (anonymous namespace)::g<4> >(int, float*)", "_Z3fooILi4EEvPf", "train.py(3): step"),
]  # fmt: skip

BYTES = [
    b"",
    b"\0",
    b"\xff",
    b"\xf0\x28\x8c",
    b"\xed\xa0\x80",
    b"\x80" * 20,
    b"\xc0\xaf",
    b"\xfe\xff",
]


def odd_integer(random: Random) -> int:
    """Return a number near a limit, or any of 64 bits."""
    if random.random() < 0.2:
        return random.getrandbits(64) - random.choice([0, 1 << 63])
    return random.choice(INTEGERS)


def odd_number_text(random: Random) -> str:
    """Return what stands where a number should, well-formed or not."""
    if random.random() < 0.4:
        return str(odd_integer(random))
    return random.choice(NUMBER_TEXTS)


def odd_text(random: Random) -> str:
    """Return a text that breaks quoting, encoding, paths or assumptions about length."""
    if random.random() < 0.1:
        return "".join(chr(random.randrange(1, 0x300)) for _ in range(random.randrange(1, 9)))
    return random.choice(TEXTS)


def odd_scalar(random: Random) -> Any:
    """Return a value of any simple type."""
    kind = random.randrange(8)
    if kind < 3:
        return odd_integer(random)
    if kind < 5:
        return odd_text(random)
    if kind == 5:
        return random.choice(FLOATS)
    if kind == 6:
        return odd_number_text(random)
    return random.choice([None, True, False])


def near(number: int, random: Random) -> int:
    """Return another number that a reader may confuse with `number`."""
    return random.choice([number + 1, number - 1, -number, number * 1000, number << 32, 0, number])
