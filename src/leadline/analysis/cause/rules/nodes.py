"""Rules of GPUs and hosts. Signals by the names that Leadline stores them under.

Sources: NVIDIA DCGM field identifiers and XID documentation; cgroup v1 and v2 documentation; SuperBench (ATC'24) for
row remaps; Greyhound (ATC'25) for GPUs and hosts that fail slow; Minder (NSDI'25).
"""

from __future__ import annotations

from leadline.analysis.cause.rules.rule import (
    ANY,
    FITTING,
    NETWORK,
    OWN_WORK,
    PROOF,
    RARE,
    SLOW,
    TELLING,
    WEAK,
    Rule,
    Sign,
)
from leadline.model.accounts import Layer
from leadline.model.hardware_codes import Suspect, codes_of
from leadline.model.incidents import ActionKind as A

_MEMORY, _NVLINK = ("|".join(codes_of(each)) for each in (Suspect.MEMORY, Suspect.NVLINK))

NODE_RULES: tuple[Rule, ...] = (
    # -- GPUs ------------------------------------------------------------------------------------------------------
    Rule(
        "slow-gpu",
        "runs at a lower clock than it should: heat or power",
        ("gpu",),
        Layer.GPU,
        SLOW,
        (
            Sign(
                "anomaly", r"DCGM_FI_DEV_(THERMAL|POWER|HW_SLOWDOWN|RELIABILITY)_VIOLATION", PROOF, "high", needed=True
            ),
            Sign("anomaly", r"DCGM_FI_DEV_(SM|MEM)_CLOCK", TELLING, "low", needed=True),
            Sign("anomaly", r"DCGM_FI_DEV_CLOCKS?_(EVENT|THROTTLE)_REASONS", PROOF, needed=True),
            Sign("anomaly", r"DCGM_FI_DEV_(GPU|MEMORY)_TEMP", FITTING, "high"),
            Sign("sle_loss", r"DCGM_FI_DEV_.*(CLOCK|VIOLATION|TEMP).*", FITTING),
        ),
        OWN_WORK,
        action=A.DRAIN,
    ),
    Rule(
        "gpu-memory",
        "remaps rows of its memory, or cannot",
        ("gpu",),
        Layer.GPU,
        ANY,
        (
            Sign("event", r"xid", PROOF, code=_MEMORY, needed=True),
            Sign(
                "anomaly", r"DCGM_FI_DEV_(UN)?CORRECTABLE_REMAPPED_ROWS|DCGM_FI_DEV_ROW_REMAP_\w+", PROOF, needed=True
            ),
            Sign("anomaly", r"DCGM_FI_DEV_ECC_\w+", TELLING, "high", needed=True),
            Sign("failure", r"xid", FITTING),
        ),
        OWN_WORK | {"died", "restart"},
        action=A.RESET_GPU,
    ),
    Rule(
        "nvlink-errors",
        "has errors on its NVLink",
        ("gpu",),
        Layer.GPU,
        ANY,
        (
            Sign("event", r"xid", PROOF, code=_NVLINK, needed=True),
            Sign("event", r"sxid", TELLING, needed=True),
            Sign("anomaly", r"DCGM_FI_DEV_NVLINK_\w+ERROR\w*", PROOF, "high", needed=True),
            Sign("sle_loss", r"DCGM_FI_DEV_NVLINK.*", FITTING),
        ),
        OWN_WORK | NETWORK,
        action=A.RESET_GPU,
    ),
    Rule(
        "gpu-pcie",
        "repeats transfers on PCIe",
        ("gpu",),
        Layer.GPU,
        SLOW,
        (
            Sign("anomaly", r"DCGM_FI_DEV_PCIE_REPLAY_COUNTER", TELLING, "high", needed=True),
            Sign("event", r"pcie-aer", FITTING),
        ),
        OWN_WORK,
        prior=RARE,
        action=A.RESET_GPU,
    ),
    # -- hosts -----------------------------------------------------------------------------------------------------
    Rule(
        "cpu-throttled",
        "gives its rank less CPU time than others get",
        ("host",),
        Layer.HOST,
        SLOW,
        (
            Sign("anomaly", r"container_cpu_cfs_throttled_(periods|seconds)_total", TELLING, "high", needed=True),
            Sign("event", r"cpu-throttle", PROOF, needed=True),
            Sign("anomaly", r"node_pressure_cpu_\w+", WEAK, "high"),
            Sign("sle_loss", r"container_cpu_cfs_throttled.*", FITTING),
        ),
        OWN_WORK | NETWORK,
        action=A.DRAIN,
    ),
    Rule(
        "cpu-contended",
        "has more to compute than its CPUs can",
        ("host",),
        Layer.HOST,
        SLOW,
        (
            Sign(
                "anomaly", r"node_pressure_cpu_(waiting|stalled)_seconds_total", FITTING, "high", "peers", needed=True
            ),
            Sign("suspect", r"host-stall-by-probes", FITTING, needed=True),
            Sign("anomaly", r"node_load1", WEAK, "high", "peers"),
            Sign("anomaly", r"node_procs_running", WEAK, "high", "peers"),
        ),
        OWN_WORK,
        prior=RARE,
        action=A.DRAIN,
        fallback=True,  # of a machine whose CPUs another host takes, that one is the reason
    ),
    Rule(
        "memory-pressure",
        "has hardly room for its rank's memory and reclaims all the time",
        ("host",),
        Layer.HOST,
        SLOW,
        (
            Sign("anomaly", r"container_spec_memory_limit_bytes", TELLING, "low", needed=True),
            Sign("anomaly", r"container_memory_(failcnt|failures_total|events_max)", TELLING, "high", needed=True),
            Sign("anomaly", r"node_pressure_memory_\w+", FITTING, "high", needed=True),
            Sign("anomaly", r"process\.paging\.faults", TELLING, "high", needed=True),
            Sign("anomaly", r"container_memory_usage_bytes", WEAK, "high"),
            Sign("anomaly", r"process\.disk\.io|node_disk_read_bytes_total", WEAK, "high"),
        ),
        OWN_WORK,
        action=A.RESIZE,
    ),
    Rule(
        "neighbour",
        "takes CPU and network from the hosts on its machine",
        ("host",),
        Layer.HOST,
        SLOW,
        (
            Sign("anomaly", r"container_cpu_usage_seconds_total|node_cpu_seconds_total", FITTING, "high"),
            Sign("anomaly", r"node_network_(receive|transmit)_(bytes|packets)_total", FITTING, "high", needed=True),
            Sign("anomaly", r"(ifOutOctets|ifInOctets)", FITTING, "high", needed=True),
            Sign("anomaly", r"node_infiniband_port_(rcv|xmit)_(data|packets)_total", FITTING, "high", needed=True),
        ),
        OWN_WORK | NETWORK,
        action=A.AVOID,
        where="machine",
    ),
    Rule(
        "machine-check",
        "reports errors of memory, processor or PCIe",
        ("host",),
        Layer.HOST,
        ANY,
        (
            Sign("event", r"mce|edac", TELLING, severity="error|fatal|warning", needed=True),
            Sign("event", r"pcie-aer", FITTING, code="non-fatal|fatal|dpc", needed=True),
            Sign("event", r"hung-task", TELLING, needed=True),
        ),
        prior=RARE,
        action=A.REPLACE_NODE,
    ),
)
