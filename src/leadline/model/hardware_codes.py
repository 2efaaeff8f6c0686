"""What hardware calls its own errors, as numbers and bits, and what its vendor advises: one table each.

Sources: NVIDIA, "Xid Errors" (docs.nvidia.com/deploy/xid-errors, catalogue for Ampere and newer, release r580) for
XIDs; NVIDIA, "GPU Debug Guidelines" (drain before a reset or a reboot); `dcgm_fields.h` of DCGM 4, DCGM_CLOCKS_EVENT_
REASON_*, for clocks; RFC 2863 (IF-MIB), ifOperStatus; Linux, include/rdma/ib_verbs.h (enum ib_port_state) and node_
exporter's infiniband collector for ports.

Where we depart from NVIDIA's column "immediate action": 79 says RESTART_BM (start the machine again); a scheduler would
send the next job there meanwhile, so we drain first. 48 names a workflow whose outcome without 63 or 64 is RESET_GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from leadline.model.incidents import ActionKind

A = ActionKind


class Suspect(StrEnum):
    """Where the fault is, as far as an XID tells it."""

    GPU = "gpu"  # bus, firmware, the chip as a whole
    MEMORY = "memory"
    NVLINK = "nvlink"
    PROGRAM = "program"  # what runs on it; hardware only if it comes again with other programs
    FOLLOWS = "follows"  # another error came before it, or it is a note: proves nothing by itself


@dataclass(frozen=True, slots=True)
class Xid:
    """One XID of NVIDIA's driver. `dead`: the GPU does no work until it is reset, or its host is started again."""

    code: str
    name: str
    suspect: Suspect
    action: ActionKind
    vendor: str  # NVIDIA's word for the immediate action
    dead: bool = False

    @property
    def words(self) -> str:
        """`XID 79 (GPU has fallen off the bus)`."""
        return f"XID {self.code} ({self.name})"


_G, _M, _N, _P, _F = Suspect.GPU, Suspect.MEMORY, Suspect.NVLINK, Suspect.PROGRAM, Suspect.FOLLOWS
_XIDS = (
    Xid("8", "GPU stopped processing", _P, A.RESTART_APP, "RESTART_APP"),
    Xid("11", "invalid or corrupted push buffer stream", _P, A.RESTART_APP, "RESTART_APP"),
    Xid("13", "exception in the graphics engine", _P, A.RESTART_APP, "RESTART_APP"),
    Xid("25", "invalid or illegal push buffer stream", _P, A.RESTART_APP, "RESTART_APP"),
    Xid("31", "page fault in GPU memory", _P, A.RESTART_APP, "RESTART_APP"),
    Xid("32", "invalid or corrupted push buffer stream", _P, A.RESTART_APP, "RESTART_APP"),
    Xid("43", "GPU stopped processing for one program", _P, A.NONE, "IGNORE"),
    Xid("45", "clean-up after an earlier error", _F, A.NONE, "WORKFLOW_XID_45"),
    Xid("46", "GPU stopped processing", _G, A.RESET_GPU, "RESET_GPU", dead=True),
    Xid("48", "uncorrectable ECC error (double bit)", _M, A.RESET_GPU, "WORKFLOW_XID_48", dead=True),
    Xid("62", "internal micro-controller halted", _G, A.RESET_GPU, "RESET_GPU", dead=True),
    Xid("63", "row of memory remapped", _M, A.RESET_GPU, "IGNORE"),  # the reset activates it, when convenient
    Xid("64", "row of memory could not be remapped", _M, A.RESET_GPU, "RESET_GPU", dead=True),
    Xid("68", "error of the video decoder", _P, A.RESTART_APP, "RESTART_APP"),
    Xid("69", "error of the graphics engine class", _P, A.RESTART_APP, "RESTART_APP"),
    Xid("74", "NVLink error", _N, A.RESET_GPU, "WORKFLOW_NVLINK_ERR"),
    Xid("79", "GPU has fallen off the bus", _G, A.DRAIN, "RESTART_BM", dead=True),
    Xid("92", "many single-bit ECC errors", _M, A.NONE, "IGNORE"),
    Xid("93", "InfoROM may be written no more", _F, A.CONTACT_SUPPORT, "IGNORE"),
    Xid("94", "contained memory error", _M, A.RESTART_APP, "RESTART_APP"),
    Xid("95", "uncontained memory error", _M, A.RESET_GPU, "RESET_GPU", dead=True),
    Xid("109", "switch of context timed out", _G, A.RESET_GPU, "RESET_GPU", dead=True),
    Xid("110", "security fault", _G, A.RESET_GPU, "RESET_GPU", dead=True),
    Xid("119", "GPU firmware (GSP) does not answer", _G, A.RESET_GPU, "RESET_GPU", dead=True),
    Xid("120", "GPU firmware (GSP) error", _G, A.RESET_GPU, "RESET_GPU", dead=True),
    Xid("121", "corrected errors on the link to the CPU (C2C)", _F, A.NONE, "IGNORE"),
    Xid("136", "NVLink training failed", _N, A.RESET_GPU, "RESET_GPU"),
    Xid("137", "NVLink privilege error: an illegal access between GPUs", _P, A.NONE, "IGNORE"),
    Xid("140", "uncorrectable ECC error before rows could be remapped", _M, A.RESET_GPU, "RESET_GPU", dead=True),
    Xid("141", "error of CUDA's fast path", _F, A.NONE, "IGNORE"),
    Xid("143", "GPU could not be initialised", _G, A.RESET_GPU, "RESET_GPU", dead=True),
    Xid("144", "NVLink error (SAW)", _N, A.RESET_GPU, "WORKFLOW_NVLINK5_ERR"),
    Xid("145", "NVLink error (RLW)", _N, A.RESET_GPU, "WORKFLOW_NVLINK5_ERR"),
    Xid("146", "NVLink error (TLW)", _N, A.RESET_GPU, "WORKFLOW_NVLINK5_ERR"),
    Xid("147", "NVLink error (TREX)", _N, A.RESET_GPU, "WORKFLOW_NVLINK5_ERR"),
    Xid("148", "NVLink error (NVLPW_CTRL)", _N, A.RESET_GPU, "WORKFLOW_NVLINK5_ERR"),
    Xid("149", "NVLink error (NETIR)", _N, A.RESET_GPU, "WORKFLOW_NVLINK5_ERR"),
    Xid("150", "NVLink error (MSE)", _N, A.RESET_GPU, "WORKFLOW_NVLINK5_ERR"),
    Xid("154", "GPU reports which recovery it needs", _F, A.NONE, "XID_154"),
    Xid("155", "NVLink taken down by software", _N, A.RESET_GPU, "RESET_GPU"),
    Xid("156", "part of the memory retired", _M, A.RESET_GPU, "RESET_GPU"),
    Xid("157", "part of the memory could not be retired", _M, A.CONTACT_SUPPORT, "IGNORE"),
    Xid("158", "fatal time-out of the GPU", _G, A.RESET_GPU, "RESET_GPU", dead=True),
    Xid("160", "channel retired", _F, A.NONE, "IGNORE"),
    Xid("161", "channel could not be retired", _F, A.NONE, "IGNORE"),
    Xid("171", "uncorrectable error in DRAM, beside XID 48", _F, A.NONE, ""),
    Xid("172", "uncorrectable error in SRAM, beside XID 48", _F, A.NONE, ""),
)  # fmt: skip
XIDS: Mapping[str, Xid] = {each.code: each for each in _XIDS}
FALLEN_OFF = XIDS["79"]


def xid_of(code: str) -> Xid | None:
    """The XID of a code; None for one that is not in the table."""
    return XIDS.get(code)


def xid_words(code: str) -> str:
    """`XID 79 (GPU has fallen off the bus)`; `XID 999` of one that is not in the table."""
    known = XIDS.get(code)
    return known.words if known is not None else f"XID {code}"


def codes_of(suspect: Suspect) -> tuple[str, ...]:
    """The codes of all XIDs with a suspect."""
    return tuple(each.code for each in _XIDS if each.suspect is suspect)


DEAD_KINDS: Mapping[str, Xid] = {"gpu-lost": FALLEN_OFF}
"""Kinds of events beside `xid` after which a part is dead, with the XID that says the same."""


def death_of(kind: str, code: str) -> Xid | None:
    """What an event says of a part that is dead until it is reset; None: it says no such thing."""
    known = DEAD_KINDS.get(kind) or (XIDS.get(code) if kind == "xid" else None)
    return known if known is not None and known.dead else None


def advised(kind: str, code: str) -> Xid | None:
    """The entry whose advice counts for an event of this kind and code; None: the table has none."""
    return DEAD_KINDS.get(kind) or (XIDS.get(code) if kind == "xid" else None)


CLOCK_REASONS: Mapping[int, str] = {
    0x1: "nothing to do (idle)",
    0x2: "clocks set by an application",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "clocks of the display",
}
"""Bits of DCGM_FI_DEV_CLOCKS_EVENT_REASONS (before DCGM 3.3: CLOCK_THROTTLE_REASONS)."""

IF_OPER_STATUS: Mapping[int, str] = {
    1: "up", 2: "down", 3: "testing", 4: "unknown", 5: "dormant", 6: "not present", 7: "lower layer down",
}  # fmt: skip
IB_PORT_STATE: Mapping[int, str] = {
    0: "no change",
    1: "down",
    2: "initialising",
    3: "armed",
    4: "active",
    5: "active, deferred",
}
IB_PHYSICAL_STATE: Mapping[int, str] = {
    0: "no change", 1: "sleep", 2: "polling", 3: "disabled", 4: "training", 5: "link up", 6: "recovering from errors",
    7: "test of the physical layer",
}  # fmt: skip
UP_OR_DOWN: Mapping[int, str] = {0: "down", 1: "up"}
NO_OR_YES: Mapping[int, str] = {0: "no", 1: "yes"}
