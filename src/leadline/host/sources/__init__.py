"""Every source of the agent, listed. To add one: its file, a line here, recorded bytes in its test.

Order matters in one place: `ring` says which processes are ranks, so it comes before those that look at them.
"""

from __future__ import annotations

from leadline.host.sources.cgroup import Cgroup
from leadline.host.sources.ethtool import Ethtool
from leadline.host.sources.exits import Exits
from leadline.host.sources.graph import Graph
from leadline.host.sources.inventory import Inventory
from leadline.host.sources.kmsg import Kmsg
from leadline.host.sources.link import LinkEvents
from leadline.host.sources.lldp import Lldp
from leadline.host.sources.mesh import Mesh
from leadline.host.sources.nic import Nic
from leadline.host.sources.proc import Proc
from leadline.host.sources.ranks import Ranks
from leadline.host.sources.rdma import Rdma
from leadline.host.sources.ring import Ring
from leadline.host.sources.source import Source
from leadline.host.sources.tcp_diag import TcpDiag

SOURCES: tuple[type[Source], ...] = (
    LinkEvents,
    Ring,
    Exits,
    Cgroup,
    Kmsg,
    Nic,
    TcpDiag,
    Rdma,
    Ethtool,
    Proc,
    Ranks,
    Graph,
    Lldp,
    Mesh,
    Inventory,
)
