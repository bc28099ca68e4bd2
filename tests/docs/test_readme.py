"""What README.md says is so."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from convoq.cli.main import app
from tests.cli.support import needs_curl, running_up
from tests.docs.made import made
from tests.stack import ROOT

TEXT = (ROOT / "README.md").read_text()
COMMANDS: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
CURL = re.search(r"^ {4}\$ (curl -N .*)$", TEXT, re.MULTILINE)


def test_readme_is_short() -> None:
    assert len(TEXT.splitlines()) <= 150


@pytest.mark.parametrize("path", made())
def test_what_is_made_from_the_settings_is_that_of_the_code(path: str) -> None:
    assert (ROOT / path).read_text() == made()[path], "run `make docs`"


def test_every_command_is_documented_and_every_documented_one_exists() -> None:
    table = re.findall(r"^\| `convoq ([a-z]+)", TEXT, re.MULTILINE)
    assert sorted(table) == sorted(COMMANDS)
    named = re.findall(r"`convoq ([a-z]+)|^ {4}convoq ([a-z]+)", TEXT, re.MULTILINE)
    assert {first or second for first, second in named} <= set(COMMANDS)


def test_every_command_has_a_help() -> None:
    for name, command in COMMANDS.items():
        assert command.help, name


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"make ([a-z]+)", TEXT):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("deploy/*.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert "://" in target or (page.parent / target).exists(), target


def test_the_architecture_names_files_that_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    named = re.findall(r"\b((?:api|worker|delivery|engine|nodes|models|lua|contract|convoq)/[\w/]+\.(?:py|lua))", text)
    assert len(named) > 15
    for name in named:
        path = name.removeprefix("convoq/")
        roots = [ROOT / part / "convoq" for part in ("api", "worker", "shared")]
        assert any((root / path).exists() for root in roots), name


@pytest.mark.slow
@needs_curl
def test_the_two_commands_of_the_readme(tmp_path: Path) -> None:
    """`make up` is `convoq up`; the line in the README is the one it prints, and answers as the README shows."""
    recipe = subprocess.run(["make", "-n", "up"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    arguments = shlex.split(re.findall(r"convoq (up .*)", recipe)[-1])
    assert arguments == ["up", "--workers", "2", "--port", "8080"]
    assert CURL is not None
    with running_up(tmp_path, "--workers", "2") as up:
        port = re.search(r":(\d+)/", up.url)
        assert port
        assert up.curl.replace(port[1], "8080") == CURL[1]
        answer = subprocess.run(["bash", "-c", up.curl], capture_output=True, text=True, timeout=30)
    lines = [json.loads(line) for line in answer.stdout.splitlines()]
    assert "".join(line.get("content", "") for line in lines).endswith("437.")
    assert lines[-1]["type"] == "end"
    shown = TEXT[CURL.end() :].partition("\n\n")[0].strip().splitlines()
    assert [json.loads(line)["type"] for line in shown if "…" != line.strip()] == [
        "begin",
        "item",
        "item",
        "item",
        "end",
    ]
    assert json.loads(shown[-1])["seq"] == lines[-1]["seq"]
