"""Rules of what makes jobs stall or crash: the decision table, first match wins. Entries as in `slow`.

`stalls` says whom the job waited for and how (died, frozen, never-entered, diverged, stuck); these say why. What a link
or a storage does to jobs that stall stands with the slow rules: the same fault, more of it.
Sources: Holmes (NSDI'25) for the table; NVIDIA's XID documentation; Llama 3 (section 3.3.4) for what ends jobs.
"""

from __future__ import annotations

from leadline.analysis.cause.rules.rule import (
    ANY,
    CERTAIN,
    FITTING,
    LIKELY,
    LOCATED,
    PROOF,
    RARE,
    STOP,
    TELLING,
    WEAK,
    Rule,
    Sign,
)
from leadline.model.accounts import Layer
from leadline.model.hardware_codes import Suspect, codes_of
from leadline.model.incidents import ActionKind as A

_GONE = frozenset({"died", "restart"})  # stalls and crashes; the ledger where it is back
_GONE_OR_ABSENT = _GONE | {"never-entered", "stuck", "straggler"}
_LOST = "|".join((*codes_of(Suspect.GPU), "45"))  # 45 follows the death of the chip, or of a program
_PROGRAM = "|".join(codes_of(Suspect.PROGRAM))
# Seconds between an OOM kill and the first lost second: the killed process is gone at once, and peers of a lost worker
# give up within a minute. An agent that starts reports what the kernel has logged since its boot, and an old kill of
# another program is no reason for a death of now. Source: definition (`TOGETHER_NS` of `symptoms/crashes`).
KILLED_S = 60.0
_OWN_CRASH = r"signal/SIG(SEGV|BUS|FPE|ILL|SYS|TRAP)"

STALL_RULES: tuple[Rule, ...] = (
    # -- 1: it is gone ---------------------------------------------------------------------------------------------
    Rule(
        "oom-kill",
        "ran out of memory, and the kernel killed a rank",
        ("host",),
        Layer.HOST,
        ANY,
        (
            Sign("event", r"oom-kill", PROOF, within_s=KILLED_S, needed=True),
            Sign("failure", r"oom-kill", PROOF, needed=True),
            Sign("anomaly", r"container_oom_events_total", PROOF, "high", needed=True),
            Sign("event", r"oom", FITTING),
            Sign("anomaly", r"container_memory_(failcnt|failures_total|events_\w+)", FITTING, "high"),
            Sign("anomaly", r"node_pressure_memory_\w+", WEAK, "high"),
        ),
        _GONE,
        action=A.RESIZE,
        works=False,
    ),
    Rule(
        "gpu-lost",
        "fell off its bus, or does nothing any more",
        ("gpu",),
        Layer.GPU,
        ANY,
        (
            Sign("event", r"xid", PROOF, code=_LOST, severity="error|fatal|warning", needed=True),
            Sign("event", r"gpu-lost", PROOF, needed=True),
            Sign("failure", r"gpu-lost", PROOF, needed=True),
            Sign("event", r"pcie-aer", FITTING, code="fatal|dpc"),
        ),
        _GONE_OR_ABSENT,
        action=A.DRAIN,
        works=False,
    ),
    Rule(
        "host-lost",
        "is not there any more",
        ("host",),
        Layer.HOST,
        ANY,
        (
            Sign("event", r"host-not-ready", PROOF, needed=True),
            Sign("failure", r"silent|host-not-ready", PROOF, needed=True),
        ),
        _GONE_OR_ABSENT,
        prior=RARE,
        action=A.REPLACE_NODE,
        works=False,
    ),
    Rule(
        "program-crashed",
        "crashed in its own code",
        ("rank",),
        Layer.APPLICATION,
        STOP,
        (
            Sign("event", r"process-exit", PROOF, code=_OWN_CRASH, needed=True),
            Sign("event", r"xid", FITTING, code=_PROGRAM),
        ),
        _GONE,
        action=A.RESTART_APP,
        works=False,
    ),
    Rule(
        "program-failed",
        "ended with an error of its own, before the others",
        ("rank",),
        Layer.APPLICATION,
        STOP,
        (
            Sign("event", r"process-exit", FITTING, code=r"exit/.*|signal/SIGABRT.*", needed=True),
            Sign("event", r"rank-failed", FITTING, code=r"\w+", needed=True),  # its exception, as the hook saw it
        ),
        _GONE,
        action=A.RESTART_APP,
        works=False,
        alone=True,
        strength=LOCATED,
        fallback=True,
    ),
    Rule(
        "killed",
        "was killed; by whom is not known",
        ("rank",),
        Layer.APPLICATION,
        STOP,
        (Sign("event", r"process-exit", FITTING, code=r"signal/SIG(KILL|HUP|QUIT|PIPE)", needed=True),),
        _GONE,
        action=A.RESTART_APP,
        works=False,
        alone=True,
        strength=LOCATED,
        fallback=True,
    ),
    # -- 2: it is there and does not come ---------------------------------------------------------------------------
    Rule(
        "process-stopped",
        "stands still: its process was stopped",
        ("rank",),
        Layer.APPLICATION,
        ANY,
        (Sign("event", r"process-stopped", PROOF, needed=True), Sign("failure", r"process-stopped", FITTING)),
        frozenset({"frozen", "never-entered", "straggler"}),
        action=A.RESTART_APP,
        works=False,
        alone=True,
        strength=LIKELY,
    ),
    Rule(
        "io-hang",
        "waits for its disk or file system",
        ("host",),
        Layer.HOST,
        STOP,
        (
            Sign("event", r"hung-task", PROOF, needed=True),
            Sign("event", r"storage-error", TELLING, needed=True),
            Sign("anomaly", r"node_pressure_io_(waiting|stalled)_seconds_total", TELLING, "high", needed=True),
            Sign("anomaly", r"node_procs_blocked", TELLING, "high", needed=True),
            Sign("anomaly", r"node_cpu_seconds_total", WEAK),
        ),
        frozenset({"never-entered"}),
        action=A.REBOOT_NODE,
        works=False,
    ),
    Rule(
        "never-came",
        "did not come to a collective, and nothing below it shows why",
        ("rank",),
        Layer.APPLICATION,
        STOP,
        (Sign("anomaly", r"process\.cpu\.time", WEAK),),
        frozenset({"never-entered"}),
        action=A.RESTART_APP,
        works=False,
        alone=True,
        strength=LOCATED,
        fallback=True,
    ),
    # -- 3: not the same -----------------------------------------------------------------------------------------------
    Rule(
        "program-diverged",
        "called another collective than the other ranks",
        ("rank", "job"),
        Layer.APPLICATION,
        STOP,
        (),
        frozenset({"diverged"}),
        how=r"decision:3",
        action=A.RESTART_APP,
        works=False,
        alone=True,
        strength=CERTAIN,
    ),
    # -- 4: all came, and it does not end ----------------------------------------------------------------------------
    Rule(
        "blackhole",
        "loses packets, and counts none of them",
        ("switch",),
        Layer.FABRIC,
        ANY,
        (
            Sign("event", r"path-dead|blackhole", PROOF, needed=True),
            Sign("suspect", r"blackhole", PROOF, needed=True),
            Sign("suspect", r"blackhole-perhaps", WEAK, needed=True),
            Sign("anomaly", r"node_netstat_TcpExt_TCP(Timeouts|LostRetransmit)", FITTING, "high", needed=True),
            Sign("conflict", r"never-arrives|off-path", FITTING, needed=True),
        ),
        frozenset({"stuck", "communication"}),
        prior=RARE,
        action=A.REROUTE,
        works=False,
    ),
)
