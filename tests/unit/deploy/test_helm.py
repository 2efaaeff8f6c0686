"""The chart: what it sets are settings that there are, and what Helm makes of it is what Leadline starts with."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from leadline import __version__
from leadline.cli.verbs import VERBS
from leadline.host.config import AgentConfig
from leadline.host.config import load as load_agent
from leadline.server.config import SECTIONS, load
from leadline.server.settings import ServerConfig, require_guarded
from leadline.server.supervisor import STOP_WAIT_S

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "deploy/helm/leadline"
CONTAINERFILE = (ROOT / "deploy/container/Containerfile").read_text()
HELM = shutil.which("helm") or shutil.which("helm", path=ROOT / ".venv/bin")
EVERYTHING = (
    "server.tls.existingSecret=cert", "server.tokens.existingSecret=tokens", "agent.ca.existingConfigMap=ca",
    "agent.privileged=true", "agent.config.labels.rack=r1", "serviceMonitor.enabled=true",
    "server.config.store.query_bytes_max=1000000000", "server.persistence.storageClassName=fast",
)  # fmt: skip
needs_helm = pytest.mark.skipif(HELM is None, reason="needs helm (scripts/install-helm)")


def test_its_version_is_leadlines() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__


def test_its_schema_knows_every_value_and_no_other() -> None:
    """Helm checks values by it, so that a name that is misspelt is refused."""

    def same(schema: dict[str, Any], values: Any, where: str) -> None:
        if "properties" not in schema:
            return
        assert not schema["additionalProperties"], where
        assert set(schema["properties"]) - {"global"} == set(values), where
        for name, value in values.items():
            same(schema["properties"][name], value, f"{where}.{name}")

    same(
        json.loads((CHART / "values.schema.json").read_text()),
        yaml.safe_load((CHART / "values.yaml").read_text()),
        "values",
    )


@pytest.mark.parametrize(
    "path",
    [*sorted((CHART / "templates").iterdir()), ROOT / "deploy/container/Containerfile"],
    ids=lambda path: path.name,
)
def test_settings_that_are_named_are_there(path: Path) -> None:
    known = {"AGENT": AgentConfig} | {name.upper(): kind for name, kind in SECTIONS}
    for section, key in re.findall(r"LEADLINE_([A-Z]+)__([A-Z_]+)", path.read_text()):
        assert key.lower() in {field.name for field in dataclasses.fields(known[section])}, (section, key)


def test_image_and_chart_have_the_same_user_and_ports() -> None:
    chart = (CHART / "templates/statefulset.yaml").read_text()
    assert f"USER {re.findall(r'runAsUser: (.*)', chart)[0]}:" in CONTAINERFILE
    assert re.findall(r"^EXPOSE (.*)", CONTAINERFILE, re.M) == [" ".join(re.findall(r"containerPort: (\d+)", chart))]
    ours = ServerConfig()
    assert re.findall(r"containerPort: (\d+)", chart) == [
        str(port) for port in (ours.port, ours.otlp_grpc_port, ours.otlp_http_port)
    ]


def rendered(*values: str) -> dict[str, dict[str, Any]]:
    """What Helm makes of the chart, by kind and name."""
    assert HELM
    sets = [each for value in values for each in ("--set", value)]
    ran = subprocess.run(
        [HELM, "template", "demo", CHART, "--namespace", "train", *sets],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    found = [each for each in yaml.safe_load_all(ran.stdout) if each]
    return {f"{each['kind']} {each['metadata']['name']}": each for each in found}


def pod(of: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = of["spec"]["template"]["spec"]
    return found


def env(container: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each.get("value", "from the node") for each in container["env"]}


@needs_helm
def test_helm_finds_nothing_to_complain_of() -> None:
    assert HELM
    ran = subprocess.run([HELM, "lint", "--strict", CHART], capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stdout


@needs_helm
@pytest.mark.parametrize("values", [(), EVERYTHING], ids=["as it is", "everything"])
def test_the_server_starts_with_what_it_is_given(values: tuple[str, ...], tmp_path: Path) -> None:
    found = rendered(*values)
    of = found["StatefulSet demo-leadline"]
    (server,) = pod(of)["containers"]
    verb, *flags = server["args"]
    assert verb in VERBS
    assert flags[0] == "--config"
    path = tmp_path / "leadline.yaml"
    path.write_text(found["ConfigMap demo-leadline"]["data"][Path(flags[1]).name])
    settings = load(path, env(server))
    assert settings.server.host == "0.0.0.0"
    require_guarded(settings.server)  # it would not start otherwise
    assert bool(settings.server.tls_key) == bool(values)
    assert pod(of)["terminationGracePeriodSeconds"] > STOP_WAIT_S
    assert pod(of)["securityContext"]["runAsNonRoot"]
    for each in (*pod(of)["initContainers"], server):
        assert each["securityContext"]["readOnlyRootFilesystem"]
        assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    scheme = "HTTPS" if values else "HTTP"
    assert {server[f"{probe}Probe"]["httpGet"]["scheme"] for probe in ("startup", "liveness", "readiness")} == {scheme}


@needs_helm
@pytest.mark.parametrize("values", [(), EVERYTHING], ids=["as it is", "everything"])
def test_the_agent_starts_with_what_it_is_given(values: tuple[str, ...], tmp_path: Path) -> None:
    found = rendered(*values)
    of = pod(found["DaemonSet demo-leadline-agent"])
    (agent,) = of["containers"]
    path = tmp_path / "leadline.yaml"
    path.write_text(found["ConfigMap demo-leadline-agent"]["data"]["leadline.yaml"])
    settings = load_agent(path, env(agent), {})
    service = found["Service demo-leadline"]
    assert settings.server == f"http{'s' * bool(values)}://demo-leadline.train:{service['spec']['ports'][0]['port']}"
    mounts = {each["mountPath"] for each in agent["volumeMounts"]}
    assert {str(settings.spool), str(settings.ring_dir)} <= mounts
    assert str(Path(settings.token_file).parent) in mounts
    assert agent["securityContext"].get("privileged", False) == bool(values)
    assert (str(settings.kmsg) in mounts) == bool(values)
    assert of["hostNetwork"]
    assert of["hostPID"]


@needs_helm
@pytest.mark.parametrize("values", [(), EVERYTHING, ("agent.enabled=false",)], ids=["as it is", "everything", "server"])
def test_its_parts_find_each_other(values: tuple[str, ...]) -> None:
    found = rendered(*values)
    labels = {}
    for name, of in found.items():
        if of["kind"] in ("StatefulSet", "DaemonSet"):
            labels[name] = of["spec"]["template"]["metadata"]["labels"]
            assert of["spec"]["selector"]["matchLabels"].items() <= labels[name].items()
            given = {
                each["name"]
                for each in (*pod(of)["volumes"], *of["spec"].get("volumeClaimTemplates", ()))
                if "name" in each
            }
            given |= {each["metadata"]["name"] for each in of["spec"].get("volumeClaimTemplates", ())}
            containers = (*pod(of).get("initContainers", ()), *pod(of)["containers"])
            mounted = {mount["name"] for each in containers for mount in each["volumeMounts"]}
            assert mounted == given
    chosen = found["Service demo-leadline"]["spec"]["selector"].items()
    assert [name for name, each in labels.items() if chosen <= each.items()] == ["StatefulSet demo-leadline"]
    assert ("DaemonSet demo-leadline-agent" in found) == ("agent.enabled=false" not in values)
    if monitor := found.get("ServiceMonitor demo-leadline"):
        service = found["Service demo-leadline"]
        assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()


@needs_helm
def test_a_wrong_value_is_refused() -> None:
    assert HELM
    ran = subprocess.run(
        [HELM, "template", "demo", CHART, "--set", "server.service.port=99999"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ran.returncode != 0
    assert "65,535" in ran.stderr
