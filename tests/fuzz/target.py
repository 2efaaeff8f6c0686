"""What a fuzz target is."""

from __future__ import annotations

import hashlib
import importlib
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from leadline.model.errors import DataError, RefusedError, UsageError

CORPORA = Path(__file__).parent / "corpora"
GROWN = "grown.zip"
GROWN_MAX, GROWN_BYTES_MAX = 200, 32 << 10  # of one target, unpacked; of all targets half a megabyte packed

# What a decoder may raise whatever comes: "these bytes are not what they claim", "more than we take", "not allowed".
REFUSALS = (DataError, RefusedError, UsageError)


@dataclass(frozen=True, slots=True)
class Target:
    """One format: the function of its name in a module of tests/fuzz/targets takes any bytes. An exception that leaves
    it is a finding; so is a crash, an input that takes seconds, or one that takes gigabytes."""

    name: str
    module: str
    bytes_max: int = 4096  # of one input: libFuzzer's own default; larger where the smallest good one is
    kernels: bool = False  # numba scans it: mutated once interpreted, for coverage, and once as it ships

    @property
    def run(self) -> Callable[[bytes], None]:
        """The function. Its module is imported here and not before: to trace all of them takes half a minute."""
        module = importlib.import_module(f"tests.fuzz.targets.{self.module}")
        run: Callable[[bytes], None] = getattr(module, self.name)
        return run

    @property
    def words(self) -> tuple[str, ...]:
        """Words that mean something to it, which mutation would seldom hit upon: `WORDS` of its module, by its name."""
        module = importlib.import_module(f"tests.fuzz.targets.{self.module}")
        found: dict[str, Iterable[str]] = getattr(module, "WORDS", {})
        return tuple(sorted(set(found.get(self.name, ()))))

    @property
    def corpus(self) -> Path:
        """Where its inputs are kept."""
        return CORPORA / self.name

    def kept(self) -> Iterator[tuple[str, bytes]]:
        """Name and bytes of each input that is kept: its files, then what coverage grew by, which is packed."""
        for path in sorted(self.corpus.iterdir()):
            if path.name != GROWN:
                yield path.name, path.read_bytes()
        if (self.corpus / GROWN).exists():
            with zipfile.ZipFile(self.corpus / GROWN) as packed:
                for name in packed.namelist():
                    yield name, packed.read(name)

    def keep(self, inputs: Iterable[bytes]) -> int:
        """Keep of what coverage grew by, in place of what was kept before, inputs of all sizes. Returns: how many."""
        known = {path.read_bytes() for path in self.corpus.iterdir() if path.name != GROWN}
        some = sorted({each for each in inputs if each not in known}, key=lambda each: (len(each), each))
        some = some[:: -(-len(some) // GROWN_MAX) or 1]
        count = size = 0
        with zipfile.ZipFile(self.corpus / GROWN, "w", zipfile.ZIP_DEFLATED) as packed:
            for each in some:
                size += len(each)
                if size > GROWN_BYTES_MAX:
                    break
                count += 1
                packed.writestr(zipfile.ZipInfo(f"grown-{hashlib.sha256(each).hexdigest()[:12]}"), each,
                                zipfile.ZIP_DEFLATED)  # fmt: skip
        return count
