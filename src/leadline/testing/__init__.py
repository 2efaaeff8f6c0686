"""Fakes we ship, for tests of ours and of others. Production code never imports them."""

from leadline.testing.clock import FakeClock
from leadline.testing.store import MemoryStore, StoreFaults

__all__ = ["FakeClock", "MemoryStore", "StoreFaults"]
