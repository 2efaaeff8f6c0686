"""What the server lets go when memory is tight: all of it is made or read again when it is asked for."""

from __future__ import annotations

from leadline.runner.run import Runner
from leadline.server.memory.allocators import give_back
from leadline.server.memory.watch import Release
from leadline.store import Store
from leadline.store.engine_memory import let_go


def releases(store: Store, runner: Runner) -> list[Release]:
    """What is let go, in order: what holds rows first, the allocators that get them back last."""
    return [
        ("rows that analyses read", runner.forget),
        ("caches of the engine", lambda: let_go(store)),
        ("what allocators keep", give_back),
    ]
