"""What convoq's keys begin with, and how RQ comes to the same."""

from __future__ import annotations

import ast
import subprocess
import sys
from inspect import isfunction, signature

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convoq import keys
from tests.cli.support import environment
from tests.stack import ROOT

NAMES = st.from_regex(keys.ALLOWED, fullmatch=True)


def python(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment(**env), capture_output=True, text=True, timeout=60)


def test_all_keys_follow_the_prefix() -> None:
    code = (
        "import convoq.delivery.admission as admission, convoq.store.workflows as store\n"
        "from convoq import keys, rq\n"
        "from convoq.redis import load_script\n"
        "print(keys.LEASES, keys.execution('e'), store.INDEX, rq.WORKERS_SUSPENDED, rq.Job.key_for('j'))\n"
        "print(admission.Slot.of('s').allowed, rq.PUBSUB_CHANNEL_TEMPLATE % 'w', rq.Queue.redis_queues_keys)\n"
        "print(load_script('forget').source.decode().splitlines()[0])\n"
    )
    done = python(code, CONVOQ_PREFIX="blue-1")
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "blue-1:lease blue-1:exec:e blue-1:wf:index blue-1:rq:suspended blue-1:rq:job:j",
        "blue-1:rq:rl:s:allowed blue-1:rq:pubsub:w blue-1:rq:queues",
        "local PREFIX, RQ_PREFIX = 'blue-1:', 'blue-1:rq:'",
    ]


@pytest.mark.parametrize("prefix", ["", "a:b", "a b", "-a", "é", "a" * 41, "x'..'"])
def test_a_prefix_that_cannot_be_is_refused_before_anything_is_written(prefix: str) -> None:
    code = "from convoq.cli.main import main; import sys; sys.argv = ['convoq', 'list']; main()"
    done = python(code, CONVOQ_PREFIX=prefix, CONVOQ_REDIS_URL="redis://127.0.0.1:1/0")
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: CONVOQ_PREFIX={prefix!r}: "), done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_rq_imported_first_is_told_of() -> None:
    done = python("import rq\nimport convoq.rq")
    assert "import convoq.rq first" in done.stderr


def test_only_one_file_imports_rq() -> None:
    """Anywhere else it could be imported before its prefix is set."""
    importers = set()
    for part in ("api", "worker", "shared"):
        for file in (ROOT / part).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                names = [node.module] if isinstance(node, ast.ImportFrom) else []
                names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if any(name is not None and name.split(".")[0] == "rq" for name in names):
                    importers.add(str(file.relative_to(ROOT)))
    assert importers == {"shared/convoq/rq.py"}


@given(NAMES, NAMES)
def test_no_installations_keys_are_within_anothers(one: str, other: str) -> None:
    if one != other:
        assert not f"{one}:".startswith(f"{other}:")


@given(NAMES)
def test_keys_of_any_installation_are_reserved(name: str) -> None:
    for own in (keys.LEASES, keys.execution("e"), keys.memory("w", "s", "n"), "convoq:rq:job:1"):
        assert keys.is_reserved(own.replace("convoq", name, 1))
    assert not keys.is_reserved(name)
    assert not keys.is_reserved(f"{name}:alice") or name == "rq"


def test_every_key_is_of_a_named_kind() -> None:
    made = [value for name, value in vars(keys).items() if name.isupper() and str(value).startswith(keys.PREFIX)]
    for function in vars(keys).values():
        if isfunction(function) and function.__module__ == keys.__name__:
            words = signature(function).parameters
            made += [function(*words)] if words else []
    found = {keys.kind(key): key for key in made if isinstance(key, str) and key.startswith(keys.PREFIX)}
    assert len(found) >= 15
    for kind, key in found.items():
        assert kind in keys.KINDS or key in (keys.PREFIX, keys.RQ_PREFIX), key


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (keys.execution("e"), "exec"),
        (keys.stream_log("e"), "exec log"),
        (keys.run_data("e"), "exec data"),
        (keys.joined("e"), "exec more"),
        (keys.memory("w", "s", "log"), "mem"),
        (keys.session_keys("w", "s"), "session"),
        (keys.LEASES, "lease"),
        ("convoq:rq:job:1", "rq job"),
        ("convoq:rq:wip:job", "rq"),
        ("convoq:something:else", "something"),
    ],
)
def test_kinds(key: str, kind: str) -> None:
    assert keys.kind(key) == kind
