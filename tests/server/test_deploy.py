"""The files in deploy/ name options and settings that exist."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import typer.main
import yaml
from typer.testing import CliRunner

from clew.cli.app import app

DEPLOY = Path(__file__).parents[2] / "deploy"
COMMAND = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
OPTIONS = {name for each in COMMAND.params for name in each.opts}
SETTINGS = {each.envvar for each in COMMAND.params if each.envvar} | {"CLEW_URL"}


def test_every_option_and_setting_exists():
    for path in DEPLOY.iterdir():
        text = path.read_text("utf-8")
        assert set(re.findall(r"\bCLEW_[A-Z]+", text)) <= SETTINGS, path.name
        for line in re.findall(r"(?:clew serve|ENTRYPOINT|command: \[\"--|args:).*", text):
            assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", line)) <= OPTIONS, path.name


def test_manifests_are_yaml_and_run_without_rights():
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    assert compose["services"]["clew"]["read_only"] is True
    deployment, service = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text("utf-8"))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert service["kind"] == "Service"
    assert "USER 10001" in (DEPLOY / "Dockerfile").read_text("utf-8")


def test_the_server_of_the_compose_file_uses_each_of_the_other_services():
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]
    url = urlsplit(services["clew"]["environment"]["CLEW_URL"].replace("${POSTGRES_PASSWORD:?set it}", "secret"))
    assert url.hostname == "postgres"
    assert urlsplit(parse_qs(url.query)["cache"][0]).hostname == "redis"
    assert services.keys() == {"clew", "postgres", "redis"} == {"clew", *services["clew"]["depends_on"]}


def test_the_files_say_that_the_containers_user_must_read_the_tokens(tmp_path):
    tokens = tmp_path / "clew-tokens.json"
    made = CliRunner().invoke(app, ["token", "create", "ops", "--tokens", str(tokens)])
    assert made.exit_code == 0
    assert tokens.stat().st_mode & 0o077 == 0
    assert made.output.strip() not in tokens.read_text("utf-8")
    for name in ("Dockerfile", "compose.yaml"):
        assert re.search(r"chmod 644 (deploy/)?clew-tokens.json", (DEPLOY / name).read_text("utf-8"))
