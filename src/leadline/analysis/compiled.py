"""How analyses compile their kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

from leadline.model.sources import kept_by_content

F = TypeVar("F", bound=Callable[..., Any])


def compiled(*, cache: bool = True, **options: Any) -> Callable[[F], F]:
    """numba's `njit`. `cache`: its code is kept on the disk, as long as the sources that it is made of are the same."""

    def one(function: F) -> F:
        found: F = kept_by_content(njit(cache=cache, **options)(function))
        return found

    return one
