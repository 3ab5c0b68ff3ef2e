"""A small program that counts words: what the picture of the tool `source` shows."""

from __future__ import annotations

import random

PAGES, WORDS = 30, 20_000
ENDINGS = ("ings", "ing", "ers", "er", "s")


def fetch(number: int) -> list[str]:
    """Return the words of a page."""
    chance = random.Random(number)
    lengths = chance.choices(range(1, 12), k=WORDS)
    return ["word" * (1 + length % 3) + ENDINGS[length % 5] for length in lengths]


def stem(word: str) -> str:
    """Return a word without its ending."""
    for ending in ENDINGS:
        if word.endswith(ending):
            return word[: -len(ending)]
    return word


def count(words: list[str], counts: dict[str, int]) -> None:
    """Add the words of a page to the sums."""
    for word in words:
        short = stem(word)
        counts[short] = counts.get(short, 0) + 1


def main() -> None:
    """Count the words of all pages."""
    counts: dict[str, int] = {}
    for number in range(PAGES):
        count(fetch(number), counts)


if __name__ == "__main__":
    main()
