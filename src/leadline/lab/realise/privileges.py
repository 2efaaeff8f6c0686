"""What this machine lacks for a lab, told before anything is touched."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from leadline.model.errors import WorldError

# (number, name) of the capabilities needed, from linux/capability.h
CAPABILITIES = ((12, "CAP_NET_ADMIN"), (21, "CAP_SYS_ADMIN"))
PROGRAMS = {
    "ip": "iproute2",
    "tc": "iproute2",
    "nft": "nftables",
    "setpriv": "util-linux",
}


def missing() -> list[str]:
    """What is missing, one phrase each; empty where a lab can be made."""
    lacks = []
    if os.geteuid() != 0:
        lacks.append("root")
    effective = _effective_capabilities()
    lacks += [name for bit, name in CAPABILITIES if not effective >> bit & 1]
    # Who is not root has no sbin in his PATH; the programs are there all the same.
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *(("/usr/sbin", "/sbin") if lacks else ())])
    lacks += [
        f"`{name}` (Debian: {package})" for name, package in PROGRAMS.items() if not shutil.which(name, path=path)
    ]
    if not Path("/proc/self/ns/net").exists():
        lacks.append("network namespaces in the kernel (CONFIG_NET_NS)")
    return lacks


def require() -> None:
    """Errors: WorldError naming all that is missing and what works without."""
    if lacks := missing():
        raise WorldError(
            f"the lab needs {', '.join(lacks)}: it makes network namespaces and shapes their ports; "
            "without that, `leadline replay` plays a recorded incident"
        )


def _effective_capabilities() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0
