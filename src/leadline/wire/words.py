"""Unaligned loads from a uint8 array, for numba kernels.

Numba's own `data[at]` on a signed index first asks whether the index is negative; scanners index with numbers
they have just compared with the end, so that question costs a fifth of their time. These loads do not ask:

    THE CALLER MUST HAVE CHECKED 0 <= at and at + size <= len(data).

Little-endian machines only (every one that numba supports for us: x86-64, aarch64); asserted at import.
"""

from __future__ import annotations

import sys
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

assert sys.byteorder == "little", "the scanners load words as they lie in memory; this machine is big-endian"


def _load(data: Any, bits: int, result: Any) -> Any:
    """The signature and code generator of one load, or None if `data` is not a contiguous uint8 array."""
    if not isinstance(data, types.Array) or data.dtype != types.uint8 or data.layout != "C":
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        word = ir.IntType(bits)
        place = builder.gep(array.data, [args[1]])
        loaded = builder.load(builder.bitcast(place, word.as_pointer()))
        loaded.align = 1
        return loaded if bits == result.bitwidth else builder.zext(loaded, ir.IntType(result.bitwidth))

    return result(data, types.intp), codegen


def _byte_at(typing_context: Any, data: Any, at: Any) -> Any:
    """`data[at]` as int64."""
    return _load(data, 8, types.int64)


def _word_at(typing_context: Any, data: Any, at: Any) -> Any:
    """The 8 bytes from `at` on as one uint64, little-endian."""
    return _load(data, 64, types.uint64)


def _swapped(typing_context: Any, word: Any) -> Any:
    """A uint64 with its bytes in the other order: words so turned compare as their bytes do."""
    if word != types.uint64:
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bswap(args[0])

    return types.uint64(types.uint64), codegen


def _put_word(typing_context: Any, data: Any, at: Any, word: Any) -> Any:
    """Store a uint64 as the 8 bytes from `at` on, little-endian."""
    if not isinstance(data, types.Array) or data.dtype != types.uint8 or data.layout != "C":
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        place = builder.gep(array.data, [args[1]])
        builder.store(args[2], builder.bitcast(place, ir.IntType(64).as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(data, types.intp, types.uint64), codegen


# Numba's annotations describe the code generators, not the kernels' view: to mypy a load is just a callable.
byte_at: Any = intrinsic(_byte_at)
word_at: Any = intrinsic(_word_at)
swapped: Any = intrinsic(_swapped)
put_word: Any = intrinsic(_put_word)
