"""From another host, as far as one machine goes: a real server on all addresses with tokens and TLS, real agents and
verbs at another address of it, a token that is revoked and one that expires while they send."""

from __future__ import annotations

import datetime
import ipaddress
import os
import ssl
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import grpc
import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from tests.senders.running import RunningLeadline, running, wait_for
from typer.testing import CliRunner

from leadline.cli.main import app
from leadline.model.errors import LeadlineError

NAME, ADDRESS = "leadline.test", "127.0.0.2"
EXPORT = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"


def certificate(directory: Path) -> tuple[Path, Path]:
    """A certificate of NAME and ADDRESS, signed by itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    today = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.DNSName(NAME), x509.IPAddress(ipaddress.ip_address(ADDRESS))])
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(today - datetime.timedelta(days=1))
        .not_valid_after(today + datetime.timedelta(days=1)).add_extension(names, False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True).sign(key, hashes.SHA256())
    )  # fmt: skip
    cert_file, key_file = directory / "cert.pem", directory / "key.pem"
    cert_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return cert_file, key_file


class Elsewhere:
    """A server that others may connect to, and what they need for it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.cert, self.key = certificate(directory)
        self.tokens = directory / "private" / "tokens.json"
        self.me = self.token("me", "admin")
        tls = ["--tls-cert", str(self.cert), "--tls-key", str(self.key)]
        self.server = RunningLeadline(directory, args=["--host", "0.0.0.0", "--token-file", str(self.tokens), *tls])
        self.server.http = httpx.Client(
            base_url=f"https://{ADDRESS}:{self.server.port}",
            trust_env=False,
            verify=ssl.create_default_context(cafile=self.cert),
        )
        self.url = f"https://{ADDRESS}:{self.server.port}"

    def leadline(self, *args: str, fails: bool = False, **environ: str) -> str:
        """What a verb prints, or the message that it ends with."""
        unset = dict.fromkeys((name for name in os.environ if name.startswith("LEADLINE_")), None)
        done = CliRunner().invoke(app, args, env={**unset, **environ})
        assert (done.exit_code != 0) == fails, done.output
        assert not fails or isinstance(done.exception, LeadlineError), done.exception
        return f"{done.output}{done.exception or ''}"

    def token(self, name: str, role: str, *more: str) -> Path:
        """The file with the secret of a new token."""
        path = self.directory / f"{name}.token"
        flags = ["--token-file", str(self.tokens), "--save", str(path), *more]
        self.leadline("token", "create", name, "--role", role, *flags)
        return path

    def asked(self, *verb: str) -> Sequence[str]:
        """A verb with all it needs to be let in."""
        return [*verb, "--server", self.url, "--ca-file", str(self.cert), "--token-file", str(self.me)]

    def agent(self, host: str, token: Path) -> list[str]:
        """Command of an agent as another host has it."""
        flags = {"server": self.url, "token-file": str(token), "ca-file": str(self.cert), "host": host,
                 "sources": "proc", "interval": "0.3", "spool": str(self.directory / f"spool-{host}")}  # fmt: skip
        return [
            sys.executable,
            "-m",
            "leadline.host.main",
            *(part for name in flags for part in (f"--{name}", flags[name])),
        ]

    def samples(self, host: str) -> int:
        """How many samples of a host are stored."""
        series = f"SELECT series FROM series WHERE entity = 'host:{host}'"
        sql = f"SELECT count() AS n FROM metric_sample WHERE series IN ({series})"
        found = self.server.http.post(
            "/api/v1/sql", json={"sql": sql}, headers={"authorization": f"Bearer {self.me.read_text().strip()}"}
        )
        assert found.status_code == 200, found.text
        return int(found.json()["rows"][0]["n"])


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Elsewhere]:
    made = Elsewhere(tmp_path_factory.mktemp("elsewhere"))
    with made.server:
        yield made


def test_agents_deliver_until_their_token_ends_and_say_so(elsewhere: Elsewhere) -> None:
    revoked, expired = elsewhere.token("agent-n1", "write"), elsewhere.token("agent-n2", "write", "--expires", "5s")
    logs = {host: elsewhere.directory / f"{host}.log" for host in ("n1", "n2")}
    with (
        running(elsewhere.agent("n1", revoked), logs["n1"]) as first,
        running(elsewhere.agent("n2", expired), logs["n2"]) as second,
    ):
        wait_for("samples of n1", lambda: elsewhere.samples("n1"), 60)
        elsewhere.leadline("token", "revoke", "agent-n1", "--token-file", str(elsewhere.tokens))
        wait_for("n1 to say that it is refused", lambda: "the token agent-n1 was revoked" in logs["n1"].read_text())
        wait_for("n2 to say that it is refused", lambda: "the token agent-n2 expired at" in logs["n2"].read_text())
        held = elsewhere.samples("n1")
        assert (first.poll(), second.poll()) == (None, None), "they keep what they have and go on"
        revoked.write_text(elsewhere.token("agent-n1-again", "write").read_text())
        wait_for("n1 to deliver what it kept", lambda: elsewhere.samples("n1") > held, 60)
        wait_for("n1 to say so", lambda: "takes it again" in logs["n1"].read_text())
    said = elsewhere.tokens.with_name("tokens.json.refused").read_text()
    assert '"who": "agent-n1"' in said
    assert '"who": "agent-n2"' in said


def test_verbs_need_a_token_and_the_certificate(elsewhere: Elsewhere) -> None:
    assert "metric_sample" in elsewhere.leadline(*elsewhere.asked("show", "tables"))
    environ = {"LEADLINE_SERVER": elsewhere.url, "LEADLINE_CA_FILE": str(elsewhere.cert)}
    told = elsewhere.leadline("sql", "SELECT 1", fails=True, **environ)
    assert "a token is needed" in told
    assert "LEADLINE_TOKEN_FILE" in told
    secret = elsewhere.me.read_text().strip()
    assert "1" in elsewhere.leadline("sql", "SELECT 1 AS one", LEADLINE_TOKEN=secret, **environ)
    sender = elsewhere.token("only-sends", "write").read_text().strip()
    assert "needs a token of the role read" in elsewhere.leadline(
        "sql", "SELECT 1", fails=True, LEADLINE_TOKEN=sender, **environ
    )
    assert "--ca-file" in elsewhere.leadline(
        "sql", "SELECT 1", "--server", elsewhere.url, fails=True, LEADLINE_TOKEN=secret
    )
    for kept in (elsewhere.tokens, elsewhere.server.log, *elsewhere.tokens.parent.iterdir()):
        assert secret not in kept.read_text()


def test_grpc_speaks_tls_and_needs_a_token(elsewhere: Elsewhere) -> None:
    credentials = grpc.ssl_channel_credentials(elsewhere.cert.read_bytes())
    secret = elsewhere.token("collector", "write").read_text().strip()
    body = ExportMetricsServiceRequest().SerializeToString()
    with grpc.secure_channel(f"{ADDRESS}:{elsewhere.server.otlp_grpc_port}", credentials) as channel:
        export = channel.unary_unary(EXPORT)
        with pytest.raises(grpc.RpcError) as told:
            export(body, timeout=30)
        assert told.value.code() is grpc.StatusCode.UNAUTHENTICATED
        export(body, timeout=30, metadata=(("authorization", f"Bearer {secret}"),))


def test_without_tokens_it_does_not_listen_where_others_connect(elsewhere: Elsewhere) -> None:
    told = elsewhere.leadline("up", "--host", "0.0.0.0", fails=True)
    assert "leadline token create" in told
