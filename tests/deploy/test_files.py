"""docker-compose.yml, Dockerfile, env.example, Makefile, lock files: every name in them is one that the code knows."""

from __future__ import annotations

import re
import subprocess
import tomllib
from typing import Any

import pytest
import yaml
from typer.main import get_command

from convoq.cli.main import app
from convoq.settings import Settings, file_variable, variables
from tests.stack import ROOT

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "deploy/Dockerfile").read_text()
OURS = ("setup", "api", "worker")
COMMANDS: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
VARIABLES = {variables(name)[0] for name in Settings.model_fields}
VARIABLES |= {file for name in Settings.model_fields if (file := file_variable(name))}


def seconds(duration: str) -> float:
    match = re.fullmatch(r"(\d+)s", duration)
    assert match, duration
    return float(match[1])


def check_command(command: list[str]) -> None:
    """`convoq COMMAND --OPTION…`: both exist."""
    assert command[0] == "convoq"
    options = {option for parameter in COMMANDS[command[1]].params for option in parameter.opts}
    for word in command[2:]:
        assert word in options, f"{word} is no option of convoq {command[1]}"


@pytest.mark.parametrize("name", OURS)
def test_services_run_commands_that_exist(name: str) -> None:
    check_command(SERVICES[name]["command"])
    assert SERVICES[name]["build"] == {"context": ".", "dockerfile": "deploy/Dockerfile"}


@pytest.mark.parametrize("name", OURS)
def test_services_set_variables_that_exist(name: str) -> None:
    environment = SERVICES[name]["environment"]
    assert set(environment) <= VARIABLES
    assert environment["CONVOQ_REDIS_URL"] == "redis://valkey:6379/0"


def test_the_api_listens_where_its_port_is_published_and_checked() -> None:
    api = SERVICES["api"]
    port = api["environment"]["CONVOQ_PORT"]
    assert api["environment"]["CONVOQ_HOST"] == "0.0.0.0"
    assert api["ports"] == [f"8080:{port}"]
    assert f"EXPOSE {port}\n" in DOCKERFILE
    test = api["healthcheck"]["test"]
    assert test[:3] == ["CMD", "python", "-c"]
    compile(test[3], "healthcheck", "exec")
    assert f"http://127.0.0.1:{port}/healthz" in test[3]
    from convoq.api.app import ROUTES

    assert "/healthz" in {route.path for route in ROUTES}


def test_workers_can_be_scaled_and_are_checked() -> None:
    worker = SERVICES["worker"]
    assert not {"container_name", "ports", "hostname"} & set(worker)
    assert worker["healthcheck"]["test"][0] == "CMD"
    check_command(worker["healthcheck"]["test"][1:])


@pytest.mark.parametrize("name", ["api", "worker"])
def test_a_stop_waits_longer_than_the_drain(name: str) -> None:
    drain_s = Settings.model_fields["drain_s"].default
    assert seconds(SERVICES[name]["stop_grace_period"]) > drain_s + 5
    assert SERVICES[name]["restart"] == "unless-stopped"


def test_valkey_keeps_its_data() -> None:
    valkey = SERVICES["valkey"]
    command = valkey["command"]
    assert command[command.index("--appendonly") + 1] == "yes"
    assert [volume.split(":")[0] for volume in valkey["volumes"]] == list(COMPOSE["volumes"])
    assert valkey["healthcheck"]["test"] == ["CMD", "valkey-cli", "ping"]


def test_dependencies_are_services_with_the_condition_they_can_meet() -> None:
    for service in SERVICES.values():
        for name, wanted in service.get("depends_on", {}).items():
            assert name in SERVICES
            assert wanted["condition"] != "service_healthy" or "healthcheck" in SERVICES[name]
            assert wanted["condition"] != "service_completed_successfully" or SERVICES[name]["restart"] == "no"


def test_the_image_copies_files_that_exist_and_are_not_ignored() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), source
            assert source in allowed, source
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for package in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        assert package.split("/")[0] in allowed


def test_the_image_runs_as_nobody_in_particular_and_as_process_1() -> None:
    final = DOCKERFILE.rpartition("\nFROM ")[2]
    assert re.search(r"^USER (?!root|0)\w+$", final, re.MULTILINE)
    command = re.search(r"^CMD (\[.*\])$", final, re.MULTILINE)
    assert command
    check_command(yaml.safe_load(command[1]))
    python = re.search(r"python:3\.(\d+)-slim", final)
    assert python and int(python[1]) >= 11


def test_env_example_names_every_setting() -> None:
    made = (ROOT / "deploy/env.example").read_text()
    assert {line[1:].partition("=")[0] for line in made.splitlines() if re.match(r"#[A-Z]", line)} == VARIABLES


@pytest.mark.parametrize("name", ["requirements.lock", "deploy/requirements.lock"])
def test_lock_files_pin_every_dependency_by_hash_and_name_no_server(name: str) -> None:
    text = (ROOT / name).read_text()
    assert "://" not in text and "--index" not in text
    entries = re.findall(r"^([a-z0-9][a-z0-9._-]*)==[^\n]*\\\n    --hash=sha256:", text, re.MULTILINE)
    assert len(entries) == len(re.findall(r"^[a-z0-9]", text, re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = list(project["project"]["dependencies"])
    if name == "requirements.lock":
        wanted += [*project["dependency-groups"]["dev"], *project["build-system"]["requires"], "editables"]
    names = {re.split(r"[\[<>=;~! ]", requirement)[0].lower() for requirement in wanted}
    assert names <= set(entries), f"run `make lock`: {sorted(names - set(entries))} missing"


def test_the_image_has_the_versions_that_were_tested() -> None:
    def pins(name: str) -> set[str]:
        return set(re.findall(r"^[a-z0-9][^\s;]*==[^\s;]+", (ROOT / name).read_text(), re.MULTILINE))

    assert pins("deploy/requirements.lock") <= pins("requirements.lock")


def test_make_targets_run_what_exists() -> None:
    def recipe(target: str) -> str:
        made = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        return made.stdout

    up = re.search(r"convoq (up .+)$", recipe("up"), re.MULTILINE)
    assert up
    assert up[1].split()[1::2] == ["--workers", "--port"]
    check_command(["convoq", "up", "--workers", "--port"])
    tested = recipe("test")
    assert all(tool in tested for tool in ("ruff check", "ruff format --check", "mypy", "pytest"))
    assert "-m tests.bench" in recipe("bench") and (ROOT / "tests/bench/__main__.py").exists()
    assert "requirements.lock" in recipe("lock")


def test_ci_is_make_test_with_a_browser() -> None:
    script = ROOT / ".ci/run"
    assert script.stat().st_mode & 0o111
    text = script.read_text()
    assert "set -euo pipefail" in text and "make test" in text and "CONVOQ_REQUIRE_BROWSER=1" in text
    subprocess.run(["bash", "-n", str(script)], check=True)
