"""What is put in the place of a page's names, and which commands are not run, each with its reason.

Commands that are not run are still parsed: verbs and flags of `leadline` exist.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

# The shipped recording ran from 20:20:16 to 20:23:20 on 2026-11-20, job bert-1 on hosts h1 to h8.
FROM, TO = "2026-11-20T20:20:20Z", "2026-11-20T20:23:20Z"
SUBSTITUTED: Sequence[tuple[str, str]] = (
    (r"^(\.venv|~/leadline)/bin/leadline\b", "leadline"),
    (r"/(etc|var/lib)/leadline/", "etc/"),
    # A recording is analysed once, and this one in 6 s of CPU instead of 15.
    (r"(leadline diagnose \S*/)demo\.leadline(?: --truth)?", r"\1oom-kill.leadline --truth"),
    # Other jobs, ranks and times than those of the shipped recording.
    (r"\bbert-7 bert-8\b", f"bert-1@{FROM}..2026-11-20T20:21:20Z bert-1"),
    (r"\b(tcp-1|roce-1|bert-7|bert-8)\b", "bert-1"),
    (r"(?<= )JOB\b", "bert-1"),
    (r"@-2h\b", f"@{FROM}..2026-11-20T20:21:20Z"),
    (r"@T1\.\.T2\b", f"@{FROM}..2026-11-20T20:21:20Z"),
    (r"@T3\.\.T4\b", f"@2026-11-20T20:22:00Z..{TO}"),
    (r" --at 2026-11-2\dT\d\d:\d\d:\d\dZ", f" --at {TO}"),
    (r"2026-11-20T18:00:00Z", FROM),
    (r"2026-11-20T18:10:00Z", TO),
    (r" --last \w+", f" --from {FROM} --to {TO}"),
    (r" --tenant acme\b", ""),  # the recording's rows are those of `default`
    (r"\bbert-1-(slow|stall|crash)-\d{8}T\d{6}Z\b", "{incident}"),
    (r"\bgpu:GPU-5c1e\b", "{gpu}"),
    (r"\bport:h3/eth0 --rule link-down\b", "{cause}"),
)

# A command that matches is not run, for the reason beside it. The first that matches counts.
NOT_RUN: Mapping[str, str] = {
    r"make |git clone|.*\bpytest\b|scripts/|.*\bpip install\b": "builds, installs or tests the project itself",
    r"(sudo )?(apt|apt-get|editor|dpkg|rpm|dnf|systemctl|journalctl|crontab)\b": "changes the machine",
    r"(ssh|scp|rsync|docker|podman|helm|kubectl|srun|sbatch|scontrol)\b": "needs another host or a cluster",
    r"prometheus |.*prometheus --": "another program; tests/senders has it send to Leadline",
    r"export ": "sets variables of the reader's shell",
    r"(curl|leadline) .*leadline\.example": "needs a second host with TLS; tests/unit/server/tokens has one",
    r"(\w+=\S+ )?(\S*/)?leadline (up|replay|top|demo|run)\b": "runs until stopped; the recorded server is a replay",
    r"leadline show (mesh|clock) .*--watch": "runs until it is stopped; tests/unit/cli/test_show_mesh.py",
    r"leadline agent(?!.*--(once|permissions))": "runs until it is stopped; the same flags with --once are run",
    r"leadline lab\b(?!.*--plan)": "needs root and network namespaces, and takes minutes; tests/lab runs it",
    r"leadline (import trace|show whatif)\b": "a replay takes no other telemetry; tests/unit/cli/test_import_trace.py",
    r"leadline diagnose PetSite\b": "data from outside; tests/unit/cli/test_diagnose_metrics.py runs that case",
    r"leadline .*\bdiscard\b": "the example analysis of that page; tests/common/test_howto_analysis.py builds it",
    r"leadline (backfill|restore)\b": "a recording's verdicts stay; tests/unit/cli/test_analyses_live.py",
    r"leadline backup\b": "tests/unit/store/test_backup.py",
    r"(python3?|torchrun|\S*bin/python) ": "the reader's own program or environment",
}
# Exit codes that are an answer. Others than 0: see `leadline.cli.exits`.
ANSWERS: Mapping[str, Sequence[int]] = {
    r"leadline (diagnose|show sle --check)": (0, 1, 2),
    r"leadline (doctor|status|agent --permissions)": (0, 1),
}


def substituted(text: str, names: Mapping[str, str]) -> str:
    """A command with this environment's names in the place of the page's."""
    for pattern, instead in SUBSTITUTED:
        text = re.sub(pattern, instead, text)
    for name, value in names.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def why_not_run(text: str) -> str:
    """Why a command is not run; empty if it is."""
    return next((why for pattern, why in NOT_RUN.items() if re.match(pattern, text)), "")


def answers(text: str) -> Sequence[int]:
    """The exit codes with which a command has done what the page says."""
    return next((codes for pattern, codes in ANSWERS.items() if re.match(pattern, text)), (0,))
