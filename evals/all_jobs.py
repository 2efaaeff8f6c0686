"""Every eval, with what it needs: the list that `evals.all` works through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True)
class Job:
    """One call of one program."""

    name: str
    module: str
    arguments: tuple[str, ...] = ()
    folder: str = ""  # of the data from outside that it takes by `--data`
    needs_folder: bool = False  # it has no data of its own: without the folder it is left out
    incidents: bool = False  # it takes recorded runs by `--incidents`
    keeps: bool = False  # it takes `--cache`: interrupted, it goes on within itself
    round: Literal["both", "quick", "whole"] = "both"  # a program with suites is called once in the quick round


JOBS: tuple[Job, ...] = (
    Job("onset", "onset", folder="alibaba_minibatch"),
    Job("whatif", "whatif", folder="straggler_whatif"),
    Job("paths", "paths"),
    Job("ledger", "ledger"),
    Job("anomaly", "anomaly", round="quick"),
    Job("anomaly-smd", "anomaly", ("--suite", "smd"), "smd", needs_folder=True, round="whole"),
    Job("anomaly-asd", "anomaly", ("--suite", "asd"), "asd", needs_folder=True, round="whole"),
    Job("anomaly-nab", "anomaly", ("--suite", "nab"), "nab", needs_folder=True, round="whole"),
    Job("rootcause", "rootcause", round="quick"),
    Job("rootcause-petshop", "rootcause", ("--suite", "petshop"), "petshop", needs_folder=True, round="whole"),
    Job("rootcause-nezha", "rootcause", ("--suite", "nezha"), "nezha_metrics", needs_folder=True, round="whole"),
    Job("lab", "lab", incidents=True, keeps=True),
    Job("simulated", "simulated", ("--split", "test"), keeps=True, round="whole"),
    Job("explain", "explain", ("--small",), incidents=True, keeps=True, round="whole"),
    Job("quiet", "quiet", incidents=True, keeps=True),
    Job("tenants", "tenants"),
    Job("faults-on-disk", "faults_on_disk"),
    Job("overload", "overload", round="whole"),
    # Real jobs take real minutes; the quick round has those of tests/jobs beside it.
    Job("healthy", "healthy", round="whole"),
    Job("stranger", "stranger", round="whole"),
)


def chosen(only: str, quick: bool) -> list[Job]:
    """The jobs of a round, in order."""
    rounds = ("both", "quick") if quick else ("both", "whole")
    return [each for each in JOBS if only in each.name and each.round in rounds]


def command(job: Job, quick: bool, data: Path | None, incidents: Path | None, cache: Path) -> Sequence[str] | str:
    """The arguments of a call, or why it cannot be made."""
    out = ["-m", f"evals.{job.module}", *job.arguments, "--json"]
    if quick:
        return [*out, "--quick"]
    folder = data / job.folder if data is not None and job.folder else None
    if folder is not None and folder.is_dir():
        out += ["--data", str(folder)]
    elif job.needs_folder:
        return f"needs {job.folder}/ in a directory given by --data"
    if job.incidents and incidents is not None:
        out += ["--incidents", str(incidents)]
    return [*out, "--cache", str(cache)] if job.keeps else out
