"""The story of a recorded incident, for who has no root for a lab: its truth on the left as the replay reaches it."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from rich.live import Live

from leadline.cli.client import Client
from leadline.cli.demo.demo import REFRESH_S, job_of
from leadline.cli.demo.story import Story
from leadline.cli.output import console
from leadline.cli.pasted import pasted
from leadline.lab.run import Happening
from leadline.lab.scenarios.spec import scenario_of
from leadline.lab.truth import Entry, read_truth


class RecordedStory:
    """Shows a replay as `leadline up --demo` shows a lab. Built inert."""

    def __init__(self, url: str, bundle: Path) -> None:
        """Errors: DataError, OSError if the truth beside the bundle cannot be read."""
        entries, _, scenario = read_truth(bundle.with_suffix(".truth.json"))
        self._truth = entries
        planned = scenario_of(scenario)
        self._url, self._job = url, job_of(planned)
        self._story = Story(Client(url), planned, self._job, began_ns=0, live=False)
        self._zero_ns = entries[0].onset_ns - round(planned.faults[0].at_s * 1e9)
        self._end_ns = self._zero_ns + round(planned.duration_s * 1e9)
        self._ahead = sorted(happenings(entries, self._zero_ns), key=lambda each: each.time_ns)
        self._out = console()
        self._live = Live(console=self._out, auto_refresh=False) if self._out.is_terminal else None
        self._drawn_s = 0.0
        self._done = False

    def __enter__(self) -> None:
        if self._live is not None:
            self._live.start()

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def tell(self, found: dict[str, Any]) -> None:
        """Show what the replay has reached."""
        done = found["state"] == "done"
        if self._done or (not done and time.monotonic() - self._drawn_s < REFRESH_S):
            return
        self._drawn_s, self._done = time.monotonic(), done
        at_ns = min(int(found["at_ns"]), self._end_ns)  # behind it the cluster was taken down
        while self._ahead and self._ahead[0].time_ns <= at_ns:
            self._story.add(self._ahead.pop(0))
        if self._live is None and not done:
            return  # nothing is shown before the end, and to ask takes CPU from the analyses
        self._story.ask(at_ns)
        if done:  # and everything is judged
            self._story.ask_ledger(at_ns)
            self._story.ask_causes(at_ns)
        at_s = (at_ns - self._zero_ns) / 1e9
        picture = self._story.picture(at_s if at_s >= 0 else None)
        if self._live is not None:
            self._live.update(picture, refresh=True)
        elif self._done:
            self._out.print(picture)
        if self._done:
            self.__exit__()  # what follows stands below the picture
            self._out.print("", self._story.found.held_against(self._truth), sep="\n")
            self._out.print(f"\nSee it at {self._url}/incidents, and the job at {self._url}/jobs/{self._job}")
            self._out.print(f"  {pasted(f'diagnose {self._job}', self._url)}", style="bold")
            sys.stdout.flush()


def happenings(entries: list[Entry], zero_ns: int) -> list[Happening]:
    """What a truth file tells, as the lab told it when it happened."""
    found = []
    for entry in entries:
        at_s = (entry.onset_ns - zero_ns) / 1e9
        found.append(Happening("fault", f"{entry.fault} on {entry.component[0]}", entry.onset_ns, at_s))
        if entry.end_ns is not None:
            end_s = (entry.end_ns - zero_ns) / 1e9
            found.append(Happening("mended", f"{entry.fault} is over", entry.end_ns, end_s))
    return found
