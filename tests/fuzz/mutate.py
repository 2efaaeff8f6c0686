"""A program: mutates the inputs of one target under atheris until the time is up or something is found.

    python -m tests.fuzz.mutate TARGET --seconds 60 --work DIR [--interpreted] [--seed 1]

DIR/corpus gets inputs that reach something new, DIR/findings the input of a finding. Scanners run one of two ways:

    --interpreted   as Python, every load compared with its bounds: libFuzzer sees which lines an input reaches. Numbers
                    do not wrap there as they do in machine code, so only a load outside of the input is a finding.
    (without)       as they ship, on inputs that end where readable memory ends

The inputs that are kept in tests/fuzz/corpora are written into DIR/corpus first.

Exit code 0: nothing found; 77 (libFuzzer's): a finding; 70: one that takes too long; 71: too much memory.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.fuzz.target import Target

SOURCE = Path(__file__).parents[2] / "src"

TIMEOUT_S = 10  # of one input, on a busy machine; what is usual is a millisecond, interpreted ten
TRACED = ("sqlglot", "uvicorn")  # what is not ours and decides what becomes of an input
RSS_MB_MAX = 2048  # of the process: 500 MB are imported, and decoders bound what they hold to some 300 MB


class OutOfBoundsError(BaseException):
    """A scanner read or wrote outside of its array. No decoder may catch it."""


def main() -> None:
    """Run one target until the end of libFuzzer, which ends the process."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("target")
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--interpreted", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    os.environ["NUMBA_DISABLE_JIT"] = "1" if given.interpreted else "0"
    import atheris

    warnings.simplefilter("ignore")  # of other people's code, at import
    if given.interpreted:
        interpret_words()
    target = imported(atheris, given.target, given.interpreted)
    corpus, findings = given.work / "corpus", given.work / "findings"
    corpus.mkdir(parents=True, exist_ok=True)
    findings.mkdir(parents=True, exist_ok=True)
    for name, data in target.kept():
        (corpus / name).write_bytes(data)
    words = given.work / "words.txt"
    words.write_text("".join(f"{quoted(word)}\n" for word in target.words))
    run = only_bounds(target.run) if given.interpreted else target.run
    flags = [
        f"-max_total_time={given.seconds}", f"-max_len={target.bytes_max}", f"-timeout={TIMEOUT_S}",
        f"-rss_limit_mb={RSS_MB_MAX}", f"-seed={given.seed}", f"-artifact_prefix={findings}/", "-print_final_stats=1",
        "-reload=0", "-len_control=0", *([f"-dict={words}"] if target.words else []),
    ]  # fmt: skip
    atheris.Setup([sys.argv[0], *flags, str(corpus)], run)
    atheris.Fuzz()


def quoted(word: str) -> str:
    """A word as libFuzzer's dictionaries have it."""
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\x{b:02x}" for b in word.encode()) + '"'


def imported(atheris: Any, name: str, interpreted: bool) -> Target:
    """The target; ours and what it names besides are traced for coverage. Compiled scanners cannot be: numba reads
    their byte code."""
    with atheris.instrument_imports(include=["leadline", "tests", *TRACED], exclude=[] if interpreted else scanners()):
        from tests.fuzz.registry import BY_NAME

        _ = BY_NAME[name].run  # imports what it reads with
    return BY_NAME[name]


def scanners() -> list[str]:
    """The modules that hold kernels."""
    wire = SOURCE / "leadline" / "wire"
    found = (path for path in wire.rglob("*.py") if "@kernel" in path.read_text() or "numba" in path.read_text())
    return [".".join(path.relative_to(SOURCE).with_suffix("").parts) for path in found]


def only_bounds(run: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """The target, of which only a load or store out of bounds is told."""
    import numpy as np

    files = {str(SOURCE / f"{name.replace('.', '/')}.py") for name in scanners()}

    def bounded(data: bytes) -> None:
        with np.errstate(all="ignore"):
            try:
                run(data)
            except IndexError as error:
                where = error.__traceback__
                while where is not None and where.tb_next is not None:
                    where = where.tb_next
                if where is not None and where.tb_frame.f_code.co_filename in files:
                    raise OutOfBoundsError(str(error)) from error
            except Exception:
                return

    return bounded


def interpret_words() -> None:
    """Loads and stores of `leadline.wire.words` in Python, compared with the array's bounds; before any scanner is
    imported, because these take them by name."""
    import numpy as np

    from leadline.wire import words

    def checked(data: Any, at: Any, size: int) -> int:
        if not 0 <= at <= len(data) - size:
            raise OutOfBoundsError(f"{size} bytes at {at} of {len(data)}")
        return int(at)

    def byte_at(data: Any, at: Any) -> int:
        return int(data[checked(data, at, 1)])

    def word_at(data: Any, at: Any) -> Any:
        place = checked(data, at, 8)
        return np.uint64(int.from_bytes(data[place : place + 8].tobytes(), "little"))

    def swapped(word: Any) -> Any:
        return np.uint64(int.from_bytes(int(word).to_bytes(8, "little"), "big"))

    def put_word(data: Any, at: Any, word: Any) -> None:
        place = checked(data, at, 8)
        data[place : place + 8] = np.frombuffer(int(word).to_bytes(8, "little"), np.uint8)

    for name, plain in (("byte_at", byte_at), ("word_at", word_at), ("swapped", swapped), ("put_word", put_word)):
        setattr(words, name, plain)


if __name__ == "__main__":
    main()
