"""Bytes that end where readable memory ends: a scanner that reads one byte further kills the process."""

from __future__ import annotations

import ctypes
import mmap

_PAGE = mmap.PAGESIZE
_PROT_NONE = 0


class Guarded:
    """Room for one input at a time, with a page behind it that nobody may touch. Kept for the life of the process."""

    def __init__(self, bytes_max: int) -> None:
        pages = -(-bytes_max // _PAGE)
        self._end = pages * _PAGE
        self._memory = mmap.mmap(-1, self._end + _PAGE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory)) + self._end
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mprotect(ctypes.c_void_p(address), _PAGE, _PROT_NONE) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")

    def place(self, data: bytes) -> memoryview:
        """The input where it ends at the guard; the next call overwrites it."""
        begin = self._end - len(data)
        self._memory[begin : self._end] = data
        return memoryview(self._memory)[begin : self._end].toreadonly()
