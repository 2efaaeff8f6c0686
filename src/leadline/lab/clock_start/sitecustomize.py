"""Read by Python at its start, in programs that libfaketime is preloaded to (see `leadline.lab.clock`).

Python sleeps until a moment of the monotonic clock, and libfaketime 0.9.10 takes that moment for one of the wall
clock, whatever it is told about monotonic clocks: `time.sleep` fails with "Invalid argument". Waiting for no file at
all is the same sleep, and libfaketime leaves it as it is. What else waits (locks, events, select, epoll) is unharmed.
"""

import select
import time


def _sleep(seconds: float) -> None:
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    select.select((), (), (), seconds)


setattr(time, "sleep", _sleep)  # noqa: B010 (its own signature also takes what has __index__)
