"""Settings of the ways in. Every bound has its arithmetic beside it."""

from __future__ import annotations

from dataclasses import dataclass, field

MIB = 1024 * 1024
DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class ScrapeJob:
    """One group of scrape targets, as Prometheus' `scrape_config`."""

    job: str
    targets: list[str] = field(default_factory=list, metadata={"doc": "host:port of each target"})
    file_sd: list[str] = field(
        default_factory=list, metadata={"doc": "files (globs) that list targets, as Prometheus' file_sd"}
    )
    labels: dict[str, str] = field(default_factory=dict, metadata={"doc": "labels added to every stream"})
    interval_s: float = field(default=15.0, metadata={"doc": "time between scrapes", "unit": "s", "min": 0.1})
    timeout_s: float = field(default=10.0, metadata={"doc": "give up after", "unit": "s", "min": 0.1})
    scheme: str = field(default="http", metadata={"doc": "http or https"})
    path: str = field(default="/metrics", metadata={"doc": "path of the page"})
    honor_labels: bool = field(
        default=False,
        metadata={"doc": "keep the page's own labels where they clash with ours; otherwise they become exported_*"},
    )


@dataclass(frozen=True, slots=True)
class SflowSender:
    """One switch that may send sFlow. UDP carries no token: who is listed here is believed."""

    address: str = field(metadata={"doc": "source address of its datagrams"})
    switch: str = field(metadata={"doc": "name of the switch: `switch:<name>`, ports `swport:<name>/<port>`"})
    ports: dict[int, str] = field(
        default_factory=dict, metadata={"doc": "names of its ports by ifIndex; others are called `ifIndex<N>`"}
    )
    agent: str = field(
        default="",
        metadata={"doc": "the agent address in its datagrams, where one address sends for several agents"},
    )


@dataclass(frozen=True, slots=True)
class SflowConfig:
    """The sFlow collector. It listens once `senders`, `sender_files` or `accept_unknown` is set."""

    host: str = field(
        default="",
        metadata={"doc": "address to listen on; empty: `server.host`. Other than loopback is for `senders` only"},
    )
    port: int = field(default=6343, metadata={"doc": "UDP port, the one switches expect", "min": 0, "max": 65535})
    senders: list[SflowSender] = field(
        default_factory=list, metadata={"doc": "switches that may send: a list of address, switch, ports, agent"}
    )
    sender_files: list[str] = field(
        default_factory=list,
        metadata={"doc": "files (globs) with such lists in JSON or YAML, read again when they change"},
    )
    accept_unknown: bool = field(
        default=False,
        metadata={"doc": "take datagrams of others too; the switch is then called by its agent address"},
    )
    tenant: str = field(default="default", metadata={"doc": "tenant that the rows belong to: the provider's"})
    cluster: str = field(default="default", metadata={"doc": "cluster that the switches are in"})
    receive_buffer_bytes: int = field(
        default=4 * MIB,
        metadata={
            "doc": "the socket's buffer, at most net.core.rmem_max; 4 MiB are some 3,000 datagrams",
            "unit": "bytes",
            "min": 4096,
        },
    )
    queue_bytes_max: int = field(
        default=32 * MIB,
        metadata={
            "doc": "datagrams received and not yet decoded; what comes beyond is dropped and counted",
            "unit": "bytes",
            "min": MIB,
        },
    )

    @property
    def listens(self) -> bool:
        """Whether anyone may send at all."""
        return bool(self.senders or self.sender_files or self.accept_unknown)


@dataclass(frozen=True, slots=True)
class IngestConfig:
    """What is taken in, how much at once, and when it is refused."""

    body_bytes_max: int = field(
        default=32 * MIB,
        metadata={
            "doc": "largest request body as sent; Prometheus sends some 100 kB",
            "unit": "bytes",
            "min": 1024,
        },
    )
    decompressed_bytes_max: int = field(
        default=128 * MIB,
        metadata={
            "doc": "largest body after decompression; real bodies shrink 5 to 20 times",
            "unit": "bytes",
            "min": 1024,
        },
    )
    requests_max: int = field(
        default=1024,
        metadata={
            "doc": "requests decoded or waiting for it at once; further ones get 429 (remote-write: 503), those of the sender with most first",
            "min": 1,
        },
    )
    decode_bytes_max: int = field(
        default=512 * MIB,
        metadata={
            "doc": "bytes of request bodies held at once, as received and as unpacked; further requests get 429 (remote-write: 503)",
            "unit": "bytes",
            "min": MIB,
        },
    )
    bodies_per_sender_max: int = field(
        default=128,
        metadata={
            "doc": "bodies of one address that have begun and not ended; Prometheus sends from at most 50 shards. Further ones get 429 (remote-write: 503)",
            "min": 1,
        },
    )
    decoders: int = field(default=2, metadata={"doc": "threads that decode bodies", "min": 1, "max": 64})
    batch_rows: int = field(
        default=100_000,
        metadata={
            "doc": "rows after which a batch goes to the store without waiting; each append makes one part on disk",
            "min": 1,
        },
    )
    linger_s: float = field(
        default=0.25,
        metadata={
            "doc": "longest wait for a batch to fill; the acknowledgement waits with it. Up to a second where many send, four times as long for sFlow, which waits for none",
            "unit": "s",
            "min": 0.0,
            "max": 1.0,
        },
    )
    queue_rows_max: int = field(
        default=2_000_000,
        metadata={
            "doc": "rows of one table waiting for the store; 32 bytes a sample, so 64 MB; when full 429 (remote-write: 503)",
            "min": 1000,
        },
    )
    queue_bytes_max: int = field(
        default=256 * MIB,
        metadata={
            "doc": "bytes of rows of one table waiting for the store; rows with texts are larger than samples. When full 429 (remote-write: 503)",
            "unit": "bytes",
            "min": MIB,
        },
    )
    series_max: int = field(
        default=2_000_000,
        metadata={
            "doc": "metric streams of one tenant and cluster held as known; about 100 bytes each",
            "min": 1,
        },
    )
    series_all_max: int = field(
        default=4_000_000,
        metadata={"doc": "the same of all tenants and clusters together, so 400 MB", "min": 1},
    )
    labels_per_series_max: int = field(default=64, metadata={"doc": "labels of one stream, name included", "min": 1})
    label_bytes_max: int = field(
        default=4096, metadata={"doc": "longest label name or value", "unit": "bytes", "min": 16}
    )
    age_max_s: int = field(
        default=28 * DAY_S,
        metadata={
            "doc": "oldest sample taken; raw samples are rolled up at 28 days and dropped at 30",
            "unit": "s",
            "min": 1,
            "max": 28 * DAY_S,
        },
    )
    future_max_s: int = field(
        default=600, metadata={"doc": "how far ahead of our clock a sample may be", "unit": "s", "min": 0}
    )
    scrape: list[ScrapeJob] = field(
        default_factory=list,
        metadata={"doc": "targets to scrape, a list of groups with job, targets, file_sd, ..."},
    )
    sflow: SflowConfig = field(
        default_factory=SflowConfig, metadata={"doc": "the sFlow collector: who may send, and where it listens"}
    )
