"""Fuzzing guided by coverage: `python -m tests.fuzz.coverage IMPORTER --seconds 300`.

Needs atheris (`pip install -e '.[fuzz]'`). What reaches new code is kept in the corpus, which
`python -m tests.fuzz.many --corpus FOLDER` takes as more seeds; an input that fails is kept beside it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any

_LONGEST = 1 << 16
_OWN_MUTATIONS = 0.8


def main() -> None:
    """Read the arguments and fuzz; the process ends with libFuzzer's exit code."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.fuzz.coverage")
    parser.add_argument("importer")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument(
        "--corpus", type=Path, default=Path("fuzz-corpus"), help="kept between runs"
    )
    arguments = parser.parse_args()
    try:
        import atheris
    except ImportError:
        sys.exit("atheris is not installed; pip install -e '.[fuzz]' (Linux only)")
    with atheris.instrument_imports(include=["pasta.collect"]):
        from .targets import targets
    known = targets()
    if arguments.importer not in known:
        sys.exit(f"no importer '{arguments.importer}'; known: {', '.join(known)}")
    _fuzz(atheris, known[arguments.importer], arguments.corpus, arguments.seconds)


def _fuzz(atheris: Any, target: Any, corpus: Path, seconds: int) -> None:
    from .content import one_file
    from .mutators import MUTATORS

    corpus = corpus / target.name
    corpus.mkdir(parents=True, exist_ok=True)
    kind = _write_seeds(target, corpus)

    def mutate(data: bytes, longest: int, seed: int) -> bytes:
        random = Random(seed)
        if random.random() > _OWN_MUTATIONS:
            return atheris.Mutate(data, longest)
        return MUTATORS[kind](data, random)[:longest]

    with tempfile.TemporaryDirectory() as folder:
        judge = target.judge(Path(folder))

        def read(data: bytes) -> None:
            judge.judge(target.importer, one_file(data or b" ", kind), thorough=False)

        options = [f"-max_total_time={seconds}", f"-max_len={_LONGEST}", "-rss_limit_mb=1024"]
        failures = f"-artifact_prefix={corpus.parent}/failed-{target.name}-"
        atheris.Setup([sys.argv[0], *options, failures, str(corpus)], read, custom_mutator=mutate)
        atheris.Fuzz()


def _write_seeds(target: Any, corpus: Path) -> str:
    """Write the seeds that are single files, and return the kind of container of the first."""
    from .content import kind_of

    single = [seed for seed in target.seeds if len(seed.files) == 1]
    for number, seed in enumerate(single):
        [data] = seed.files.values()
        (corpus / f"seed-{number}").write_bytes(data)
    [first] = single[0].files.values()
    return single[0].kind or kind_of(first)


if __name__ == "__main__":
    main()
