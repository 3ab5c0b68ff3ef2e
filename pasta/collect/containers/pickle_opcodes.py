"""The operations of pickles, protocols 0 to 5: how long they are, and which are refused."""

from __future__ import annotations

STOP = 0x2E
GET, LONG_BINGET = 0x67, 0x6A

FIXED: dict[int, int] = dict.fromkeys(b"(.01NQRabdelosut})]\x81\x85\x86\x87\x88\x89", 0)
"""Operation -> bytes of its argument, for those whose argument has a fixed size."""

FIXED |= dict.fromkeys(b"\x8f\x90\x91\x92\x93\x94\x97\x98", 0)
FIXED |= dict.fromkeys(b"Khq\x80\x82", 1) | dict.fromkeys(b"M\x83", 2)
FIXED |= dict.fromkeys(b"Jjr\x84", 4) | dict.fromkeys(b"G\x95", 8)

PREFIXED: dict[int, int] = {
    0x55: 1,  # SHORT_BINSTRING
    0x54: 4,  # BINSTRING
    0x58: 4,  # BINUNICODE
    0x43: 1,  # SHORT_BINBYTES
    0x42: 4,  # BINBYTES
    0x8A: 1,  # LONG1
    0x8B: 4,  # LONG4
    0x8C: 1,  # SHORT_BINUNICODE
    0x8D: 8,  # BINUNICODE8
    0x8E: 8,  # BINBYTES8
    0x96: 8,  # BYTEARRAY8
}
"""Operation -> bytes of the length before its argument."""

LINES: dict[int, int] = {**dict.fromkeys(b"FILSVgpP", 1), 0x63: 2, 0x69: 2}
"""Operation -> lines of text that are its argument."""

GLOBAL, INST, STACK_GLOBAL = 0x63, 0x69, 0x93

REFUSED: dict[int, str] = {
    0x52: "a call of a function",  # REDUCE
    0x62: "the state of an object",  # BUILD
    0x6F: "an object of a class",  # OBJ
    0x81: "an object of a class",  # NEWOBJ
    0x92: "an object of a class",  # NEWOBJ_EX
    0x82: "a registered class",  # EXT1
    0x83: "a registered class",  # EXT2
    0x84: "a registered class",  # EXT4
    0x50: "an object outside the file",  # PERSID
    0x51: "an object outside the file",  # BINPERSID
    0x97: "a buffer outside the file",  # NEXT_BUFFER
    0x98: "a buffer outside the file",  # READONLY_BUFFER
    0x8F: "a set",  # EMPTY_SET
    0x90: "a set",  # ADDITEMS
    0x91: "a set",  # FROZENSET
    0x30: "a value that contains itself",  # POP
    0x31: "a value that contains itself",  # POP_MARK
    0x53: "text of Python 2",  # STRING
    0x54: "text of Python 2",  # BINSTRING
    0x55: "text of Python 2",  # SHORT_BINSTRING
}
"""Operation -> what it makes, where that is no plain data; nothing of it is ever run."""

CLASS_NAMES: frozenset[int] = frozenset({GLOBAL, INST, STACK_GLOBAL})
"""Operations that name a class or function; they are refused by that name."""
