"""A server in one network namespace, its senders in another, tokens and TLS between them; a back-up under load.

    h2: leadline agent, torchrun (2 ranks, two lines of hook), Prometheus ── https, tokens ──> h1: leadline up

A token expires and one is revoked while they send. Nothing may be lost: what the agent kept is delivered with the next
token, Prometheus gets its next token before the old one ends. A back-up is made meanwhile, restored, and compared.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psutil
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from evals.jobs.place import MARKED
from tests.senders.running import wait_for
from typer.testing import CliRunner

from leadline.cli.main import app
from leadline.host.secret import certificates
from leadline.lab.realise import namespaces
from leadline.lab.realise.cluster import Cluster
from leadline.lab.realise.process import Process
from leadline.lab.topology import load
from leadline.store import Store, StoreConfig

pytestmark = [
    pytest.mark.timeout(600),  # a minute on an idle machine
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="needs prometheus (scripts/install-programs)"),
]

T = TypeVar("T")
PORT, PROMETHEUS_PORT = 8440, 9090
JOB, RANKS, STEPS, STEP_S = "elsewhere", 2, 100, "0.25"  # the tokens change within its first 55 steps
AGENT_LASTS_S, PROMETHEUS_LASTS_S = 5, 10  # of the tokens that expire, from when they are made
STARTED_S_MAX = 180.0  # torch loads for 5 s, on a busy machine for a minute or two
LEADLINE = (sys.executable, "-m", "leadline.cli.main")
SETTINGS = {"LEADLINE_RUNNER__ENABLED": "false"}  # analyses cost CPU, and nothing here is analysed

PROMETHEUS = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: prometheus
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
remote_write:
  - url: {server}/api/v1/write
    authorization: {{credentials_file: {token}}}
    tls_config: {{ca_file: {ca}}}
    queue_config: {{batch_send_deadline: 500ms, min_backoff: 50ms, max_backoff: 500ms}}
"""


# --- certificates -------------------------------------------------------------------------------------------------


def authority_and_server(directory: Path, address: str) -> tuple[Path, Path, Path]:
    """Certificate of an authority, and certificate and key of a server at `address` that it signed."""
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca = _certificate("authority.test", "authority.test", ca_key.public_key(), ca_key, [], ca=True)
    names: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address(address))]
    cert = _certificate("leadline.test", "authority.test", key.public_key(), ca_key, names, ca=False)
    files = directory / "ca.pem", directory / "cert.pem", directory / "key.pem"
    plain = serialization.NoEncryption()
    files[0].write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(cert.public_bytes(serialization.Encoding.PEM))
    files[2].write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    return files


def _certificate(
    subject: str, issuer: str, key: Any, signer: ec.EllipticCurvePrivateKey, names: list[x509.GeneralName], ca: bool
) -> x509.Certificate:
    today = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, issuer)]))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - datetime.timedelta(days=1))
        .not_valid_after(today + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )
    if names:
        made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return made.sign(signer, hashes.SHA256())


# --- the two hosts ------------------------------------------------------------------------------------------------


class TwoHosts:
    """h1 has the server, h2 the rest; all files are in one directory, which both see."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster, self.directory = cluster, directory
        self.url = f"https://{cluster.address('h1')}:{PORT}"
        self.ca, self.cert, self.key = authority_and_server(directory, cluster.address("h1"))
        self.tokens = directory / "private" / "tokens.json"
        self.store = directory / "store"
        self.me = self.token("me", "admin")

    def token(self, name: str, role: str, *more: str) -> Path:
        """The file with the secret of a new token."""
        path = self.directory / f"{name}.token"
        self.tokens_verb("create", name, "--role", role, "--save", str(path), *more)
        return path

    def tokens_verb(self, *verb: str) -> None:
        """`leadline token ...` on the server's token file."""
        done = CliRunner().invoke(app, ["token", *verb, "--token-file", str(self.tokens)])
        assert done.exit_code == 0, (done.output, done.exception)

    def start(self, host: str, name: str, *command: str, **env: str) -> Process:
        """A program on a host; what it prints is in `log(name)`."""
        return self.cluster.spawn(host, command, name=name, env=env, stdout=self.directory / f"{name}.log")

    def log(self, name: str) -> str:
        """What a program printed."""
        path = self.directory / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def on(self, host: str, function: Callable[[], T]) -> T:
        """Call it in the network of a host."""
        return self.cluster.call_in(host, function)

    def ask(self, method: str, path: str, token: Path | None = None, host: str = "h2", **how: Any) -> httpx.Response:
        """A request to the server from a host, by default with the administrator's token."""
        secret = (token or self.me).read_text().strip()

        def send() -> httpx.Response:
            trust = certificates(self.ca, {})
            with httpx.Client(verify=trust, trust_env=False, timeout=30.0) as client:
                return client.request(method, f"{self.url}{path}", headers={"authorization": f"Bearer {secret}"}, **how)

        return self.on(host, send)

    def is_ready(self) -> bool:
        """Whether the server is."""
        try:
            return self.ask("GET", "/ready", host="h1").status_code == 200
        except httpx.HTTPError:
            return False

    def sql(self, query: str) -> list[dict[str, Any]]:
        """Rows of a SELECT."""
        answer = self.ask("POST", "/api/v1/sql", json={"sql": query})
        assert answer.status_code == 200, answer.text
        rows: list[dict[str, Any]] = answer.json()["rows"]
        return rows

    def steps(self) -> dict[int, int]:
        """How many steps are stored of each rank."""
        rows = self.sql(f"SELECT rank, uniqExact(step) AS n FROM step WHERE job = '{JOB}' GROUP BY rank")
        return {int(row["rank"]): int(row["n"]) for row in rows}

    def scrapes(self) -> set[int]:
        """Times, ms, of the stored samples of Prometheus' own `up`."""
        series = "SELECT series FROM series WHERE name = 'up' AND source = 'remote-write'"
        rows = self.sql(f"SELECT time_ns FROM metric_sample WHERE series IN ({series})")
        return {int(row["time_ns"]) // 10**6 for row in rows}

    def scraped(self, until_s: float) -> set[int]:
        """The same as Prometheus has them itself, up to a time."""

        def query() -> httpx.Response:
            asked = {"query": "up[10m]", "time": str(until_s)}
            return httpx.get(f"http://127.0.0.1:{PROMETHEUS_PORT}/api/v1/query", params=asked, trust_env=False)

        answer = self.on("h2", query).json()
        assert answer["status"] == "success", answer
        return {round(at * 1000) for each in answer["data"]["result"] for at, _ in each["values"]}

    def refused(self) -> list[dict[str, Any]]:
        """The lines of the file of refusals."""
        path = self.tokens.with_name(f"{self.tokens.name}.refused")
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(*verb: str, env: Mapping[str, str] | None = None) -> str:
    """What a verb of `leadline` prints. Errors: AssertionError with what it said."""
    done = subprocess.run([*LEADLINE, *verb], capture_output=True, text=True, check=False, timeout=120, env=env)
    assert done.returncode == 0, f"leadline {' '.join(verb)}: {done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture
def hosts(lab_name: str, tmp_path: Path) -> Iterator[TwoHosts]:
    """Both hosts; at the end, also of a test that fails, nothing of them may be left."""
    cluster = Cluster(load("tiny"), lab_name)
    with cluster:
        yield TwoHosts(cluster, tmp_path)
    made = [namespaces.namespace_path(cluster.namespace(node)) for node in cluster.topology.nodes]
    assert not [path for path in made if path.exists()]
    commands = (" ".join(each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"]))
    assert not [each for each in commands if str(tmp_path) in each]


# --- the test -----------------------------------------------------------------------------------------------------


def start_server(hosts: TwoHosts) -> None:
    tls = ("--tls-cert", str(hosts.cert), "--tls-key", str(hosts.key))
    where = ("--host", "0.0.0.0", "--port", str(PORT), "--data-dir", str(hosts.store))
    hosts.start("h1", "server", *LEADLINE, "up", *where, "--token-file", str(hosts.tokens), *tls, **SETTINGS)
    wait_for("the server", hosts.is_ready, 60)


def start_agent(hosts: TwoHosts, token: Path) -> Process:
    rings, spool = hosts.directory / "rings", hosts.directory / "spool"
    rings.mkdir()
    flags = ("--server", hosts.url, "--token-file", str(token), "--ca-file", str(hosts.ca), "--interval", "0.5")
    places = ("--spool", str(spool), "--ring-dir", str(rings), "--host", "h2")
    return hosts.start("h2", "agent", *LEADLINE, "agent", *flags, *places)


def start_prometheus(hosts: TwoHosts, token: Path) -> None:
    config = hosts.directory / "prometheus.yml"
    config.write_text(PROMETHEUS.format(port=PROMETHEUS_PORT, server=hosts.url, token=token, ca=hosts.ca))
    data, listen = hosts.directory / "tsdb", f"127.0.0.1:{PROMETHEUS_PORT}"
    flags = (f"--config.file={config}", f"--storage.tsdb.path={data}", f"--web.listen-address={listen}")
    hosts.start("h2", "prometheus", "prometheus", *flags, "--log.level=warn")


def start_job(hosts: TwoHosts) -> Process:
    did = hosts.directory / "did"
    did.mkdir()
    launcher = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS), "--master-port", "29500")
    options = ("--did", str(did), "--step-s", STEP_S, "--steps", str(STEPS))
    env = {"LEADLINE_JOB": JOB, "LEADLINE_RING_DIR": str(hosts.directory / "rings"), "OMP_NUM_THREADS": "1"}
    return hosts.start("h2", "job", *launcher, str(MARKED), *options, **env, GLOO_SOCKET_IFNAME="lo")


def exchange(hosts: TwoHosts, file: Path, name: str, *more: str) -> None:
    """Write the secret of a new token into the file that a sender reads."""
    file.write_text(hosts.token(name, "write", *more).read_text())


def back_up_and_restore(hosts: TwoHosts) -> tuple[int, int, Path]:
    """Back up while all of them send; how many steps and samples were acknowledged before, and the restored store."""
    before = sum(hosts.steps().values()), len(hosts.scrapes())
    copy, restored = hosts.directory / "copy", hosts.directory / "restored"
    how = ("--server", hosts.url, "--token-file", str(hosts.me), "--ca-file", str(hosts.ca))
    hosts.on("h1", lambda: run("backup", str(copy), *how))
    run("restore", str(copy), "--data-dir", str(restored))
    return *before, restored


def in_store(path: Path) -> tuple[int, int]:
    """How many steps of the job and samples of `up` are in a store that no server has open."""
    store = Store(StoreConfig(path=str(path)))
    store.start()
    try:
        steps = f"SELECT count() AS n FROM (SELECT DISTINCT rank, step FROM leadline.step WHERE job = '{JOB}')"
        series = "SELECT series FROM leadline.series WHERE name = 'up' AND source = 'remote-write'"
        samples = f"SELECT uniqExact(time_ns) AS n FROM leadline.metric_sample WHERE series IN ({series})"
        return tuple(int(store.query(each)["n"][0].as_py()) for each in (steps, samples))  # type: ignore[return-value]
    finally:
        store.stop()


def test_nothing_is_lost_between_two_networks_while_tokens_end(hosts: TwoHosts) -> None:
    start_server(hosts)
    agents, prometheus = hosts.token("agent", "write"), hosts.token("prometheus", "write")
    agent = start_agent(hosts, agents)
    start_prometheus(hosts, prometheus)
    job = start_job(hosts)
    wait_for("a sample of Prometheus", hosts.scrapes, STARTED_S_MAX)
    wait_for("steps to be stored", hosts.steps, STARTED_S_MAX)

    # Prometheus has its next token before the one that it uses ends; the agent has none for some seconds.
    expires_s = time.time() + PROMETHEUS_LASTS_S
    exchange(hosts, prometheus, "prometheus-1", "--expires", f"{PROMETHEUS_LASTS_S}s")
    exchange(hosts, agents, "agent-1", "--expires", f"{AGENT_LASTS_S}s")
    wait_for("the agent to say it", lambda: "the token agent-1 expired at" in hosts.log("agent"))
    held = hosts.steps()
    exchange(hosts, prometheus, "prometheus-2")
    assert time.time() < expires_s, "this machine was too slow to renew it in time"
    time.sleep(2)  # eight steps of each rank, which only the spool has
    assert hosts.steps() == held, "what is sent with a token that ended is not stored"
    exchange(hosts, agents, "agent-2")
    wait_for("the agent to deliver again", lambda: "takes it again" in hosts.log("agent"))
    wait_for("what it had kept", lambda: min(hosts.steps().values()) >= max(held.values()) + 8)

    steps, samples, restored = back_up_and_restore(hosts)

    old = hosts.directory / "agent-2.token"
    hosts.tokens_verb("revoke", "agent-2")
    wait_for("the agent to say it", lambda: "the token agent-2 was revoked at" in hosts.log("agent"))
    answer = hosts.ask("POST", "/api/v1/rows/event", old, content=b"")
    assert answer.status_code == 401
    assert "the token agent-2 was revoked at" in answer.text
    exchange(hosts, agents, "agent-3")

    assert job.popen.wait(60) == 0, hosts.log("job")[-2000:]
    whole = dict.fromkeys(range(RANKS), STEPS)
    wait_for("all steps of both ranks", lambda: hosts.steps() == whole, 30)
    until_s = max(time.time(), expires_s + 2)
    wait_for("Prometheus to outlive its first token", lambda: time.time() >= until_s)
    theirs = hosts.scraped(until_s)
    assert max(theirs) > 1000 * expires_s
    wait_for("all its samples", lambda: theirs <= hosts.scrapes())
    refused = {row["who"]: row["why"] for row in hosts.refused() if "who" in row}
    assert "expired at" in refused["agent-1"]
    assert "was revoked at" in refused["agent-2"]
    assert not refused.keys() & {"prometheus", "prometheus-1", "prometheus-2", "agent", "agent-3"}
    assert agent.popen.poll() is None
    found = in_store(restored)
    assert found[0] >= steps > 0
    assert found[1] >= samples > 0
