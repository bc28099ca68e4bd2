"""docs/adding-a-node.md, followed word by word in a copy of the sources."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.cli.support import COMMAND, environment
from tests.stack import ROOT

TEXT = (ROOT / "docs" / "adding-a-node.md").read_text()
FILES = re.findall(r"^```\w+ file=(\S+)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
LINES = re.findall(r"^```\w+ line=(\S+)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"^\$ (.*)\n((?:(?!\$ |```).*\n)*)", TEXT, re.MULTILINE)


def test_the_page_leads_to_a_chat_that_uses_the_node(tmp_path: Path) -> None:
    for part in ("api", "worker", "shared"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    for path, text in FILES:
        (tmp_path / path).write_text(text)
    for path, line in LINES:
        registry = (tmp_path / path).read_text()
        assert "\n    # data\n" in registry
        (tmp_path / path).write_text(registry.replace("\n    # data\n", f"\n    # data\n{line}", 1))
    assert len(FILES) == 2 and len(LINES) == 1 and len(COMMANDS) == 1
    copied = os.pathsep.join(str(tmp_path / part) for part in ("api", "worker", "shared"))
    for command, expected in COMMANDS:
        name, *arguments = command.replace('"', "").split()
        assert name == "convoq"
        done = subprocess.run(
            [*COMMAND, *arguments],
            cwd=tmp_path,
            env=environment() | {"PYTHONPATH": copied},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stdout) == (0, expected), done.stderr
    checked = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        str(ROOT / "tests/nodes/test_registry.py"),
    ]
    done = subprocess.run(
        [*checked, "-k", "shout", "-c", os.devnull, f"--rootdir={tmp_path}"],
        cwd=tmp_path,
        env=environment() | {"PYTHONPATH": os.pathsep.join((copied, str(ROOT)))},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0 and "3 passed" in done.stdout, done.stdout + done.stderr
