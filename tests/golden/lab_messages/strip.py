"""Keep of a lab's recording what the analysis of messages reads, and nothing of the machine it was made on.

python tests/golden/lab_messages/strip.py run.leadline rings.leadline
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from leadline.model.tables import BY_NAME
from leadline.store.bundle import Draft, read_bundle, write_bundle

KEPT = ("relation", "collective", "message_end")


def strip(source: Path, target: Path) -> int:
    """Write the kept tables of a bundle to another one. Returns: bytes."""
    with read_bundle(source) as bundle, Draft(replace(bundle.manifest, members={}), "{}\n", None) as draft:
        for name in KEPT:
            draft.add(BY_NAME[name], bundle.groups(BY_NAME[name]))
        return write_bundle(target, draft.chunks(), draft.size)


if __name__ == "__main__":
    print(strip(Path(sys.argv[1]), Path(sys.argv[2])))
