"""What `deploy/` has, checked as far as that goes without an engine for containers."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import snippets
from zwire import zenoh
from zwire._zwire import config_check
from zwire.cli import _parser

DEPLOY = snippets.ROOT / "deploy"
CHART = DEPLOY / "helm/zwire"

EXPRESSION = re.compile(r"\{\{-? *(.*?) *-?\}\}")


def looked_up(path, values):
    value = {"Values": values, "Release": {"Name": "fleet"}}
    for part in path.removeprefix(".").split("."):
        value = value[part]
    return value


def rendered(text, values):
    """A template of the chart, with the few expressions that it uses."""

    def expression(found):
        name, *steps = found[1].split(" | ")
        is_json = name.startswith("toJson ")
        value = looked_up(name.removeprefix("toJson "), values)
        text = json.dumps(value) if is_json else str(value)
        assert steps in ([], ["quote"]), found[0]
        return json.dumps(text) if steps else text

    return EXPRESSION.sub(expression, text)


@pytest.fixture(scope="module")
def chart():
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    found = {}
    for template in sorted((CHART / "templates").iterdir()):
        for document in yaml.safe_load_all(rendered(template.read_text(), values)):
            found[document["kind"], document["metadata"]["name"]] = document
    return values, found


def test_the_chart_has_objects_that_fit_each_other(chart):
    values, found = chart
    assert yaml.safe_load((CHART / "Chart.yaml").read_text()).keys() >= {"apiVersion", "name", "version"}
    assert {kind for kind, _ in found} == {"ConfigMap", "Service", "StatefulSet"}
    spec = found["StatefulSet", "fleet-router"]["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()
    assert ("Service", spec["serviceName"]) in found
    for (kind, _), document in found.items():
        if kind == "Service":
            assert document["spec"]["selector"].items() <= labels.items()
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["resources"] == values["resources"]
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}
    understood(["router", *container["args"]])
    understood(container["livenessProbe"]["exec"]["command"][1:])


def test_the_configurations_are_right(chart):
    _, found = chart
    text = found["ConfigMap", "fleet-router"]["data"]["router.json5"]
    assert config_check("router.json5", text) == []
    file = DEPLOY / "compose/router.json5"
    assert config_check(file, file.read_text()) == []
    assert json.loads(zenoh.Config.from_file(file).get_json("mode")) == "router"


def understood(command):
    """Check a command line of ours; what follows `router` is an option of it."""
    assert _parser.parse(command).run


def test_the_compose_file_starts_commands_that_exist():
    compose = yaml.safe_load((DEPLOY / "compose/compose.yaml").read_text())
    services = compose["services"]
    assert set(services) == {"router", "robot", "log"}
    understood(["router", *services["router"]["command"]])
    understood(services["log"]["entrypoint"][1:])
    (script,) = services["robot"]["command"]
    assert services["robot"]["entrypoint"] == ["sh", "-c"]
    assert subprocess.run(["sh", "-n", "-c", script.replace("$$", "$")], check=False).returncode == 0
    put = re.search(r"zwire (put .*)", script)[1].replace("$$HOSTNAME", "robot").replace('"', "")
    understood(put.split())
    for service in services.values():
        for name, condition in service.get("depends_on", {}).items():
            assert name in services
            # That of the image; the router may not have it switched off.
            assert condition == {"condition": "service_healthy"}
            assert "healthcheck" not in services[name]
    build = services["router"]["build"]
    folder = (DEPLOY / "compose" / build["context"]).resolve()
    assert folder == snippets.ROOT
    assert (folder / build["dockerfile"]).is_file()


def instructions():
    """The instructions of the Dockerfile, lines that are continued put together."""
    text = (DEPLOY / "docker/Dockerfile").read_text().replace("\\\n", " ")
    lines = (line.strip() for line in text.splitlines())
    return [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]


def test_the_image_runs_as_nobody_with_a_health_check():
    stages = [index for index, (word, _) in enumerate(instructions()) if word == "FROM"]
    assert len(stages) == 2
    last = dict(instructions()[stages[1] :])
    assert int(last["USER"]) > 0
    assert "slim" in last["FROM"]
    command = json.loads(last["ENTRYPOINT"]) + json.loads(last["CMD"])
    assert command[0] == "zwire"
    understood(command[1:])
    check = json.loads(last["HEALTHCHECK"].partition("CMD ")[2])
    understood(check[1:])
    release = re.search(r"rust:(\d+\.\d+)", instructions()[0][1])[1]
    wanted = re.search(r'rust-version = "([\d.]+)"', (snippets.ROOT / "Cargo.toml").read_text())[1]
    assert tuple(map(int, release.split("."))) >= tuple(map(int, wanted.split(".")[:2]))


def test_the_unit_is_one():
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("there is no systemd-analyze")
    unit = DEPLOY / "systemd/zwire-router.service"
    text = unit.read_text()
    command = re.search(r"ExecStart=(\S+) (.*)", text)
    understood(command[2].split())
    assert "KillSignal=SIGTERM" in text
    assert "ExecReload=/bin/kill -HUP $MAINPID" in text


def test_systemd_reads_the_unit(tmp_path):
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("there is no systemd-analyze")
    text = (DEPLOY / "systemd/zwire-router.service").read_text()
    # The program is not installed where the unit expects it.
    unit = tmp_path / "zwire-router.service"
    unit.write_text(text.replace("/opt/zwire/bin/zwire", sys.executable))
    verified = subprocess.run(
        [tool, "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=60, check=False
    )
    ours = [
        line
        for line in verified.stderr.splitlines()
        if "zwire-router" in line or str(Path(unit).name) in line
    ]
    assert ours == [], verified.stderr
