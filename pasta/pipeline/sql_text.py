"""The text of an expression, checked before it is parsed.

The parser repeats operands: it turns `nullif(x, 0)` into `case when x = 0 then null else x end`.
Nested, such text of one line becomes more than a machine can hold, before anything can look at
the result. So functions are looked up and nesting is bounded in the text already.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pasta.errors import ConfigError, did_you_mean
from pasta.pipeline.sql_functions import FUNCTIONS, KEYWORDS

MAXIMUM_LENGTH = 2000
"""In characters. Longer expressions crash the SQL parser."""

MAXIMUM_DEPTH = 16
"""Of parentheses and `case` within each other."""

MAXIMUM_WORDS = 200
"""Names, numbers, texts and operators, less those in the lists of `in`."""

MAXIMUM_COPIES = 8
"""How often operands may be repeated, as a power of two."""

_QUOTED = r"'(?:[^']|'')*'"
_NAMED = r'"(?:[^"]|"")*"'
_PIECES = re.compile(f"({_QUOTED}|{_NAMED})")
_TOKEN = re.compile(rf"{_QUOTED}|{_NAMED}|\w+|--|/\*|[^\w\s]")
_PARAMETER = re.compile(r"\$([A-Za-z_]\w*)")
_INTEGERS = range(-(2**63), 2**63)
_REFUSED = {
    "like": "LIKE does not run on GPUs; use starts_with, ends_with or ~",
    "ilike": "ILIKE does not run on GPUs; use lower and starts_with, ends_with or ~",
    "select": "a query inside an expression is not allowed; use a stage",
    "$": "$ stands before the name of a parameter",
    "--": "comments are not allowed",
    "/*": "comments are not allowed",
}
_CHARACTERS = set("+-*/%=<>!~|(),.:\"'^@")


def substitute(text: str, path: str, parameters: Mapping[str, Any]) -> str:
    """Replace each `$name` outside quotes by its value as an SQL literal.

    Raises:
        ConfigError: there is no such parameter, or its value can stand in no expression.
    """

    def literal(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in parameters:
            known = ", ".join(sorted(parameters)) or "none"
            raise ConfigError(path, f"no parameter '{name}'; this tool has: {known}")
        problem = unusable(parameters[name])
        if problem is not None:
            raise ConfigError(f"parameters.{name}", problem)
        return _literal(parameters[name])

    pieces = _PIECES.split(text)
    return "".join(
        piece if piece.startswith(("'", '"')) else _PARAMETER.sub(literal, piece)
        for piece in pieces
    )


def unusable(value: Any) -> str | None:
    """Return why a number can stand in no expression and no column, or `None`."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"expected a finite number, got {value}"
    if isinstance(value, int) and value not in _INTEGERS:
        return f"an integer of {value.bit_length()} bits does not fit in 64"
    return None


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        mantissa, mark, exponent = repr(value).partition("e")
        if mark and "." not in mantissa:
            mantissa += ".0"  # the parser reads exponents only after decimals
        return (" " if value < 0 else "") + mantissa + mark + exponent  # two signs begin a comment
    return "'" + str(value).replace("'", "''") + "'"


def check_text(text: str, path: str) -> None:
    """Check that the parser can read `text` without harm.

    Raises:
        ConfigError: it is too long or too deep, or uses a function that is not allowed.
    """
    if len(text) > MAXIMUM_LENGTH:
        raise ConfigError(
            path, f"expression of {len(text)} characters; at most {MAXIMUM_LENGTH}, split it"
        )
    words = _without_lists(_TOKEN.findall(text))
    if len(words) > MAXIMUM_WORDS:
        raise ConfigError(
            path, f"expression of {len(words)} words and operators; at most {MAXIMUM_WORDS}"
        )
    _check_words(words, path)
    depth, copies = _nesting(words)
    if depth > MAXIMUM_DEPTH:
        raise ConfigError(path, f"nested {depth} deep; at most {MAXIMUM_DEPTH}, split it")
    if copies > MAXIMUM_COPIES:
        raise ConfigError(path, "too many functions within each other; split it into stages")


def _without_lists(words: list[str]) -> list[str]:
    """Leave out what stands in the lists of `in`, where that is numbers and texts only."""
    kept: list[str] = []
    position = 0
    while position < len(words):
        kept.append(words[position])
        position += 1
        if kept[-1].lower() == "in" and words[position : position + 1] == ["("]:
            end = position + 1
            while end < len(words) and _in_list(words[end]):
                end += 1
            if words[end : end + 1] == [")"]:
                position = end + 1
    return kept


def _in_list(word: str) -> bool:
    return word[0] in "',.-" or word.isdecimal() or word.lower() in ("true", "false")


def _check_words(words: list[str], path: str) -> None:
    for word, following in zip(words, [*words[1:], ""], strict=True):
        lowered = word.lower()
        if lowered in _REFUSED:
            raise ConfigError(path, _REFUSED[lowered])
        if len(word) == 1 and not word.isalnum() and word != "_" and word not in _CHARACTERS:
            raise ConfigError(path, f"{word!r} is not allowed in expressions")
        if lowered == "in" and following == "(":
            raise ConfigError(path, "a list after `in` holds numbers and texts only")
        if lowered == "case" and following.lower() != "when":
            raise ConfigError(path, "write `case when x = 1 then ...`, each condition in full")
        named = word[0].isalpha() or word[0] in '_"'
        if following == "(" and named and lowered not in FUNCTIONS and lowered not in KEYWORDS:
            raise ConfigError(path, f"no function '{word}'.{did_you_mean(lowered, FUNCTIONS)}")
        if following.startswith("'") and word.lower() in ("e", "n", "u", "x", "b", "q", "r"):
            raise ConfigError(path, f"texts with {word} in front are not allowed")


def _nesting(words: list[str]) -> tuple[int, int]:
    """Return how deep the text is nested and how often, as a power of two, operands are copied."""
    deepest, most, betweens = 0, 0, 0
    weights: list[int] = []
    for before, word in zip(["", *words], words, strict=False):
        opened = word.lower()
        if opened in ("(", "case"):
            function = FUNCTIONS.get(before.lower()) if opened == "(" else None
            weights.append(function.copies if function else 0)
        elif opened in (")", "end") and weights:
            weights.pop()
        betweens += opened == "between"
        deepest, most = max(deepest, len(weights)), max(most, sum(weights))
    return deepest, most + betweens


def operands_of(function: str, text: str) -> Iterator[str]:
    """Yield the text between the parentheses of each call of `function`."""
    masked = _PIECES.sub(lambda match: "." * len(match.group()), text)
    for call in re.finditer(rf"\b{function}\s*\(", masked, re.IGNORECASE):
        depth, end = 1, call.end()
        while depth and end < len(masked):
            depth += {"(": 1, ")": -1}.get(masked[end], 0)
            end += 1
        yield text[call.end() : end - 1].strip()
