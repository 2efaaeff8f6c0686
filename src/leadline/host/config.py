"""Settings of the agent, and their loading without pydantic: the agent's process stays small.

The section `agent` of `leadline.yaml`, then LEADLINE_SERVER, then `LEADLINE_AGENT__KEY`, then flags; the last one given
stands. Other sections are the server's and are not looked at.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

from leadline.model.errors import ConfigError

MIB = 1024 * 1024
FILE_BYTES_MAX = MIB
PREFIX = "LEADLINE_AGENT__"
SERVER_VARIABLE = "LEADLINE_SERVER"  # which every verb knows; the agent's own stands before it


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """What the agent reads, where it keeps it, and where it sends it."""

    server: str = field(
        default="http://127.0.0.1:8440",
        metadata={
            "doc": "where Leadline listens: http://HOST:PORT, or unix:PATH for its socket; LEADLINE_SERVER says it too"
        },
    )
    token_file: str = field(
        default="",
        metadata={
            "doc": "file whose only line is the token; empty: the file named by LEADLINE_TOKEN_FILE, or LEADLINE_TOKEN"
        },
    )
    ca_file: str = field(
        default="",
        metadata={"doc": "certificates (PEM) that the server's is signed by; empty: LEADLINE_CA_FILE, or the system's"},
    )
    host: str = field(default="", metadata={"doc": "name of this host; empty: what the system calls itself"})
    tenant: str = field(
        default="", metadata={"doc": "tenant of what is sent (header Leadline-Tenant); empty: the server's default"}
    )
    cluster: str = field(
        default="", metadata={"doc": "cluster of what is sent (header Leadline-Cluster); empty: the server's default"}
    )
    interval_s: float = field(
        default=5.0, metadata={"doc": "time between readings of counters", "unit": "s", "min": 0.1, "max": 3600.0}
    )
    ring_interval_s: float = field(
        default=0.5,
        metadata={
            "doc": "time between looks into the event rings of jobs; a server with many agents asks for more, 2 s at most",
            "unit": "s",
            "min": 0.05,
            "max": 60.0,
        },
    )
    flow_interval_s: float = field(
        default=1.0,
        metadata={
            "doc": "time between looks at what the flows of this host sent",
            "unit": "s",
            "min": 0.1,
            "max": 60.0,
        },
    )
    mesh: bool = field(
        default=True,
        metadata={"doc": "probe other hosts of the cluster, where there are some: one clock, and one-way delays"},
    )
    mesh_port: int = field(
        default=8446,
        metadata={"doc": "UDP port that is probed, and the first that probes are sent from", "min": 1024, "max": 65000},
    )
    mesh_paths: int = field(
        default=2, metadata={"doc": "source ports that probes take turns with: so many paths", "min": 1, "max": 16}
    )
    mesh_rate: float = field(
        default=50.0,
        metadata={
            "doc": "pairs of probes to each neighbour; fewer than 8 for each of `mesh_paths` are too few for a clock",
            "unit": "per s",
            "min": 1.0,
            "max": 250.0,
        },
    )
    mesh_neighbours: int = field(
        default=10,
        metadata={
            "doc": "hosts to probe at most, an even number; with fewer than 10 one wrong edge may move a clock",
            "min": 2,
            "max": 10,
        },
    )
    mesh_address: str = field(
        default="", metadata={"doc": "address of this host that others probe; empty: the one that reaches the server"}
    )
    mesh_nic: str = field(
        default="",
        metadata={
            "doc": "network card that stamps probes by a clock of its own, turned on before (`hwstamp_ctl -i NIC -t 1 -r 1`); "
            "empty, or where it cannot: the kernel stamps. No such card was at hand yet"
        },
    )
    mesh_dscp: int = field(default=0, metadata={"doc": "traffic class of probes (DSCP)", "min": 0, "max": 63})
    lldp_interval_s: float = field(
        default=15.0,
        metadata={"doc": "time between questions to lldpd for neighbours", "unit": "s", "min": 1.0, "max": 3600.0},
    )
    sources: list[str] = field(
        default_factory=list, metadata={"doc": "names of the sources to run; empty: all that work here"}
    )
    spool: Path = field(
        default=Path("/var/lib/leadline/agent"), metadata={"doc": "directory of what is not delivered yet"}
    )
    spool_bytes_max: int = field(
        default=64 * MIB,
        metadata={
            "doc": "bytes kept on disk while the server cannot be reached; beyond them the oldest is dropped and counted. An hour of 400 streams every 5 s is 24 MB",
            "unit": "bytes",
            "min": MIB,
        },
    )
    retry_s_max: float = field(
        default=10.0, metadata={"doc": "longest wait between tries to deliver", "unit": "s", "min": 0.1, "max": 600.0}
    )
    timeout_s: float = field(
        default=30.0, metadata={"doc": "give up on an answer after", "unit": "s", "min": 0.1, "max": 600.0}
    )
    stop_s_max: float = field(
        default=3.0,
        metadata={
            "doc": "longest time at stop for delivering what is left; the rest stays on disk",
            "unit": "s",
            "min": 0.0,
            "max": 60.0,
        },
    )
    nice: int = field(default=10, metadata={"doc": "how far the agent steps back behind the job", "min": 0, "max": 19})
    sys_root: Path = field(default=Path("/sys"), metadata={"doc": "where sysfs, or a tree like it, is found"})
    proc_root: Path = field(default=Path("/proc"), metadata={"doc": "where procfs is found"})
    ring_dir: Path = field(
        default=Path("/dev/shm/leadline"), metadata={"doc": "directory in which jobs keep their event rings"}
    )
    kmsg: Path = field(
        default=Path("/dev/kmsg"), metadata={"doc": "kernel log: the device, or a growing file of its records"}
    )
    lldp_socket: str = field(default="", metadata={"doc": "control socket of lldpd; empty: lldpcli's own default"})
    interfaces_not: str = field(
        default="lo|(veth|cali|lxc|docker|virbr|br-|ifb|dummy).*",
        metadata={"doc": "network interfaces that are left out (a regular expression for the whole name)"},
    )
    ethtool: str = field(
        default="(?!.*_prio[1-7]_).*(_phy|_prio[0-9].*|pause.*|discard.*|out_of_buffer|ecn_mark|module_.*)",
        metadata={"doc": "driver statistics that are read, by name (a regular expression); empty: none"},
    )
    gpus: list[str] = field(
        default_factory=list, metadata={"doc": "UUIDs of this host's GPUs, where the driver does not list them"}
    )
    cgroups: list[Path] = field(
        default_factory=list, metadata={"doc": "memory cgroups to watch for OOM kills, beside those of the ranks"}
    )
    labels: dict[str, str] = field(
        default_factory=dict,
        metadata={"doc": "what else is known of this host, such as rack and pod; exported as leadline_agent_info"},
    )


def load(path: Path | None, environ: Mapping[str, str], flags: Mapping[str, object]) -> AgentConfig:
    """The effective settings. `flags` whose value is None were not given.

    Errors: ConfigError, naming what was expected, what came from where.
    """
    given: dict[str, tuple[object, str]] = {}
    if path is not None:
        given.update(_from_file(path))
    if address := environ.get(SERVER_VARIABLE):
        given["server"] = (address, f"environment {SERVER_VARIABLE}")
    for variable, text in environ.items():
        if variable.startswith(PREFIX):
            name = variable[len(PREFIX) :].lower()
            given[name] = (_from_text(name, text), f"environment {variable}")
    for name, flag in flags.items():
        if flag is not None:
            given[name] = (flag, f"flag --{name.replace('_', '-')}")
    hints = get_type_hints(AgentConfig)
    fields = {each.name: each for each in dataclasses.fields(AgentConfig)}
    values: dict[str, Any] = {}
    for name, (value, where) in given.items():
        if name not in fields:
            raise ConfigError(f"there is no setting of agent called {name!r} ({where}); there are: {', '.join(fields)}")
        values[name] = _checked(fields[name], hints[name], value, where)
    return AgentConfig(**values)


def _from_file(path: Path) -> dict[str, tuple[object, str]]:
    import yaml  # 6 MB that an agent without a file does not need

    try:
        with path.open("rb") as file:
            text = file.read(FILE_BYTES_MAX + 1)
        if len(text) > FILE_BYTES_MAX:
            raise ConfigError(f"{path}: expected a configuration of at most {FILE_BYTES_MAX} bytes, got more")
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.SafeLoader)):
            raise ConfigError(f"{path}: YAML aliases (*name) are not taken; write the value out")
        whole = yaml.safe_load(text)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}; name another file with --config") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not YAML: {error}") from error
    section = (whole or {}).get("agent") if isinstance(whole or {}, dict) else whole
    if section is None:
        return {}
    if not isinstance(section, dict):
        raise ConfigError(f"{path}: expected settings of agent as `name: value`, got {section!r:.80}")
    lines = {
        key.value: key.start_mark.line + 1
        for name, body in (root.value if root is not None else ())
        if name.value == "agent"
        for key, _ in body.value
    }
    return {str(name): (value, f"{path}, line {lines.get(str(name), 1)}") for name, value in section.items()}


def _from_text(name: str, text: str) -> object:
    """A value of the environment: a list is `a,b` or YAML's `[a, b]`, a mapping `name=value,...` or `{name: value}`."""
    if text.startswith(("[", "{")):
        import yaml

        try:
            return yaml.safe_load(text)
        except yaml.YAMLError:
            return text  # the check tells what was expected
    hint = {each.name: str(each.type) for each in dataclasses.fields(AgentConfig)}.get(name, "str")
    if hint.startswith("list"):
        return [part.strip() for part in text.split(",") if part.strip()]
    if hint.startswith("dict"):
        return dict(part.strip().partition("=")[::2] for part in text.split(",") if part.strip())
    if hint == "bool":
        return {"true": True, "false": False}.get(text.lower(), text)
    if hint in ("int", "float"):
        try:
            return int(text) if hint == "int" else float(text)
        except ValueError:
            return text  # the check tells what was expected
    return text


def _checked(setting: dataclasses.Field[Any], hint: object, value: object, where: str) -> object:
    """The value in its type and within its bounds. Errors: ConfigError."""
    fitted, problem = _fitted(hint, value)
    if not problem and isinstance(fitted, int | float) and not isinstance(fitted, bool):
        problem = _out_of_bounds(setting, fitted)
    if not problem and setting.name in ("interfaces_not", "ethtool"):
        try:
            re.compile(str(fitted))
        except re.error as error:
            problem = f"a regular expression ({error})"
    if problem:
        raise ConfigError(
            f"agent.{setting.name}: expected {problem}, got {value!r:.80} ({where}); {setting.metadata['doc']}"
        )
    return fitted


def _fitted(hint: object, value: object) -> tuple[object, str]:
    """The value as that type, or what was expected."""
    if hint is bool:
        return value, "" if isinstance(value, bool) else "true or false"
    if hint is int:
        return value, "" if isinstance(value, int) and not isinstance(value, bool) else "a whole number"
    if hint is float:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value), ""
        return value, "a number"
    if hint is Path:
        return (Path(value), "") if isinstance(value, str | Path) and str(value) else (value, "a path")
    if hint is str:
        return value, "" if isinstance(value, str) else "a text"
    if hint == dict[str, str]:
        fits = isinstance(value, dict) and all(isinstance(each, str) for pair in value.items() for each in pair)
        return value, "" if fits else "texts by name"
    if not isinstance(value, list) or not all(isinstance(each, str | Path) for each in value):
        return value, "a list of texts"
    return [Path(each) for each in value] if hint == list[Path] else value, ""


def _out_of_bounds(setting: dataclasses.Field[Any], value: float) -> str:
    low, high = setting.metadata.get("min"), setting.metadata.get("max")
    if low is not None and value < low:
        return f"a number >= {low}"
    return f"a number <= {high}" if high is not None and value > high else ""
