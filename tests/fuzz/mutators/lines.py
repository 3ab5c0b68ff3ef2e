"""Changes of text that is read line by line: logs, CSV, folded stacks, JSON one a line."""

from __future__ import annotations

import re
from random import Random

from .json_text import mutate_json
from .oddities import odd_number_text, odd_text
from .raw import LONGEST, mutate_bytes

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_WORD = re.compile(r"[^\s,;:]+")
_SEPARATORS = [",", ";", "\t", " ", "|", ":", "  ", ",,", '"', "=", "("]
_ENDS = ["\n", "\r\n", "\r", "\n\n", "\0\n", "\x0b", "\x0c", "\x85", "\u2028", " \n", ""]


def mutate_lines(data: bytes, random: Random) -> bytes:
    """Return the text with some of its lines, fields or numbers changed."""
    if random.random() < 0.15:
        return mutate_bytes(data, random)
    lines = data.decode(errors="surrogateescape").split("\n")
    for _ in range(random.choice([1, 1, 2, 3, 6])):
        lines = random.choice(_CHANGES)(lines or [""], random)
    end = random.choice(_ENDS) if random.random() < 0.15 else "\n"
    encoding = random.choice(["utf-16", "utf-8-sig"]) if random.random() < 0.03 else "utf-8"
    errors = "surrogateescape" if encoding == "utf-8" else "replace"
    text = end.join(lines)
    try:
        return text.encode(encoding, errors)[:LONGEST]
    except UnicodeEncodeError:  # a lone surrogate was put in
        return text.encode("utf-8", "surrogatepass")[:LONGEST]


def mutate_json_lines(data: bytes, random: Random) -> bytes:
    """Return the text with one of its lines changed as JSON, or as text."""
    if random.random() < 0.3:
        return mutate_lines(data, random)
    lines = data.split(b"\n")
    at = random.randrange(len(lines))
    lines[at] = mutate_json(lines[at], random)
    return b"\n".join(lines)[:LONGEST]


def _number(lines: list[str], random: Random) -> list[str]:
    return _replaced(lines, _NUMBER, odd_number_text(random), random)


def _word(lines: list[str], random: Random) -> list[str]:
    return _replaced(lines, _WORD, odd_text(random), random)


def _replaced(lines: list[str], what: re.Pattern[str], by: str, random: Random) -> list[str]:
    at = random.randrange(len(lines))
    found = list(what.finditer(lines[at]))
    if found:
        chosen = random.choice(found)
        line = lines[at]
        lines[at] = line[: chosen.start()] + by + line[chosen.end() :]
    return lines


def _insert(lines: list[str], random: Random) -> list[str]:
    at = random.randrange(len(lines))
    place = random.randrange(len(lines[at]) + 1)
    piece = random.choice([*_SEPARATORS, odd_text(random), '"' + odd_text(random) + '"'])
    lines[at] = lines[at][:place] + piece + lines[at][place:]
    return lines


def _separators(lines: list[str], random: Random) -> list[str]:
    old, new = random.choice(_SEPARATORS), random.choice(_SEPARATORS)
    chosen = range(len(lines)) if random.random() < 0.5 else [random.randrange(len(lines))]
    for at in chosen:
        lines[at] = lines[at].replace(old, new)
    return lines


def _cut_line(lines: list[str], random: Random) -> list[str]:
    at = random.randrange(len(lines))
    lines[at] = lines[at][: random.randrange(len(lines[at]) + 1)]
    return lines


def _delete(lines: list[str], random: Random) -> list[str]:
    at = random.randrange(len(lines))
    return lines[:at] + lines[at + random.choice([1, 1, 3, 10]) :]


def _repeat(lines: list[str], random: Random) -> list[str]:
    at = random.randrange(len(lines))
    return lines[:at] + lines[at : at + 2] * random.choice([2, 3, 30]) + lines[at:]


def _swap(lines: list[str], random: Random) -> list[str]:
    one, other = random.randrange(len(lines)), random.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return lines


def _indent(lines: list[str], random: Random) -> list[str]:
    at = random.randrange(len(lines))
    lines[at] = random.choice(["\t", "  ", "", "\u00a0"]) + lines[at].lstrip()
    return lines


def _blank(lines: list[str], random: Random) -> list[str]:
    lines.insert(random.randrange(len(lines) + 1), random.choice(["", " ", "#", '""', ","]))
    return lines


def _field(lines: list[str], random: Random) -> list[str]:
    """Take a field out of a line, or move it, where commas or blanks part them."""
    at = random.randrange(len(lines))
    separator = "," if "," in lines[at] else " "
    fields = lines[at].split(separator)
    taken = fields.pop(random.randrange(len(fields)))
    if random.random() < 0.5:
        fields.insert(random.randrange(len(fields) + 1), taken)
    lines[at] = separator.join(fields)
    return lines


_CHANGES = [_number, _number, _number, _word, _word, _insert, _separators, _cut_line, _delete, _repeat, _swap, _indent, _blank, _field]  # fmt: skip
