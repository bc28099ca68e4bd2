"""The Lua scripts, by name."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from convoq import keys


@dataclass(frozen=True)
class Script:
    """`again`: may be run again, also long after, and is when the server lost what it had written (`journal`)."""

    name: str
    source: bytes
    sha: str
    again: bool = False


@cache
def load_script(name: str) -> Script:
    """`lua/NAME.lua`, with each line `--!include OTHER` replaced by that file. Before it is what keys begin with.

    A line `--!again` marks it as one that may be run again.
    """
    folder = files("convoq") / "lua"
    lines = [f"local PREFIX, RQ_PREFIX = '{keys.PREFIX}', '{keys.RQ_PREFIX}'"]
    for line in (folder / f"{name}.lua").read_text().splitlines():
        if line.startswith("--!include "):
            line = (folder / f"{line.split()[1]}.lua").read_text()
        lines.append(line)
    source = "\n".join(lines).encode()
    return Script(name, source, hashlib.sha1(source, usedforsecurity=False).hexdigest(), again="--!again" in lines)
