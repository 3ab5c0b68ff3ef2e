"""Which memory objects lived where at a moment, against a list of all that ever lived."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

SOURCE = Path(__file__).with_name("memory_objects.cpp")
NEVER = 2**63


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    made = tmp_path_factory.mktemp("native") / "memory_objects"
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *flags, str(SOURCE), "-o", str(made)], check=True)
    return made


class Program:
    """Random allocations and releases: what is told, and every life that comes of it."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.said: list[str] = []
        self.lives: list[list[int]] = []  # begin, end, id, born, died
        self.now = 0

    def run(self, steps: int, room: int) -> None:
        for _ in range(steps):
            self.now += int(self.random.integers(1, 3))
            alive = [life for life in self.lives[-200:] if life[4] == NEVER]
            if alive and self.random.random() < 0.5:
                life = alive[self.random.integers(len(alive))]
                life[4] = self.now
                self.said.append(f"r {life[0]} {self.now}")
            else:
                self.allocate(alive, room)

    def allocate(self, alive: list[list[int]], room: int) -> None:
        begin = int(self.random.integers(room)) * 16
        end = begin + int(self.random.choice([16, 64, 512, 4096]))
        unseen = [life for life in alive if life[0] == begin]  # its release was not told
        if any(life[0] < end and begin < life[1] for life in alive if life not in unseen):
            return
        for life in unseen:
            life[4] = self.now
        self.lives.append([begin, end, len(self.lives) + 1, self.now, NEVER])
        self.said.append(f"a {begin} {end - begin} {len(self.lives)} {self.now}")

    def ask(self, count: int, room: int, first: int = 0) -> list[list[int]]:
        """Look up ranges at moments from `first` on; return the ids that should be found."""
        found = []
        for _ in range(count):
            begin = int(self.random.integers(room * 16))
            end = begin + int(self.random.choice([1, 100, 5000, room * 16]))
            moment = int(self.random.integers(first, self.now + 2))
            self.said.append(f"q {begin} {end} {moment}")
            hit = [x for x in self.lives if x[0] < end and begin < x[1] and x[3] <= moment < x[4]]
            found.append([life[2] for life in sorted(hit)])
        return found


def answers(program, said):
    text = "\n".join(said)
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
    return [list(map(int, line.split())) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("room", [20, 400, 5000])
def test_look_ups_at_any_moment(program, room):
    random = Program(room)
    expected = []
    for _ in range(4):
        random.run(150, room)
        expected += random.ask(100, room)
    assert any(expected)
    assert answers(program, random.said) == expected


def test_what_died_long_ago_is_forgotten_and_the_rest_is_not(program):
    random = Program(1)
    random.run(10_000, 300)
    assert sum(life[4] != NEVER for life in random.lives) > 4096
    moment = random.now - 500
    random.said.append(f"f {moment}")
    random.said.append(f"q 0 1000000 {moment - 3000}")
    recent = random.ask(200, 300, first=moment)
    old, *told = answers(program, random.said)
    assert told == recent
    born = {life[2]: life for life in random.lives}
    assert all(born[found][4] > moment for found in old)
