"""`convoq up`: starts, answers, survives, stops, and says what is wrong."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from tests.cli.support import COMMAND, Up, alive, convoq, environment, needs_curl, running_up
from tests.stack import chat_workflow, free_port, until

pytestmark = pytest.mark.slow


def one_line(stderr: str) -> str:
    """The whole of stderr, which must be one `error:` line."""
    lines = stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: "), stderr
    return lines[0]


def ask(up: Up) -> str:
    answer = convoq("chat", up.url, cwd=up.folder, given="What is 19 * 23?\n")
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


ANSWER = "Based on the tools: Calculator returned 437.\n"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with running_up(tmp_path_factory.mktemp("up")) as up:
        yield up


@needs_curl
def test_the_printed_line_streams_the_answer_when_pasted(up: Up) -> None:
    answer = subprocess.run(["bash", "-c", up.curl], capture_output=True, timeout=30)
    lines = [json.loads(line) for line in answer.stdout.splitlines()]
    assert "".join(str(line.get("content", "")) for line in lines) == "Based on the tools: Calculator returned 437."
    assert [line["seq"] for line in lines] == list(range(len(lines)))
    assert lines[-1]["type"] == "end"


def test_the_printed_page_is_one(up: Up) -> None:
    with urllib.request.urlopen(up.url, timeout=30) as page:
        assert "<title>" in page.read().decode()


def test_chat_streams_and_keeps_its_session(up: Up) -> None:
    answer = convoq("chat", up.url, cwd=up.folder, given="My name is Ada\nWhat is my name?\n")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.splitlines()[-1] == "Your name is Ada."
    assert "\x1b" not in answer.stdout


def test_chat_tells_what_the_server_said(up: Up) -> None:
    answer = convoq("chat", up.url.replace("demo", "nowhere"), cwd=up.folder, given="hello\n")
    assert answer.returncode == 1
    assert "404" in one_line(answer.stderr) and "nowhere" in answer.stderr


def test_other_commands_find_the_embedded_server(up: Up, tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(chat_workflow("mine")))
    imported = convoq("import", str(file), cwd=up.folder)
    assert imported.returncode == 0, imported.stderr
    assert "/webhook/mine" in imported.stdout
    listed = convoq("list", "--json", cwd=up.folder)
    assert {record["id"] for record in json.loads(listed.stdout)} == {"demo", "wf-mine"}
    answer = convoq("chat", up.url.replace("demo", "mine"), cwd=up.folder, given="What is 2 + 2?\n")
    assert answer.stdout == "Based on the tools: Calculator returned 4.\n"


def test_a_second_up_on_the_same_data_is_refused(up: Up) -> None:
    second = convoq("up", "--port", str(free_port()), cwd=up.folder)
    assert second.returncode == 2
    assert "in use by another `convoq up`" in one_line(second.stderr) and "--data" in second.stderr


def test_a_killed_worker_is_reported_and_started_again(up: Up) -> None:
    killed = up.child("entry worker")
    os.kill(killed, signal.SIGKILL)
    until(lambda: "ended with signal SIGKILL; starting it again" in up.stderr, "the loss is told")
    until(lambda: sum("entry worker" in line for line in up.children().values()) == 2, "two workers again")
    assert killed not in up.children()
    assert ask(up) == ANSWER


def test_a_restart_keeps_workflows_and_memory_and_leaves_no_process(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(chat_workflow("mine")))
    with running_up(tmp_path, "--workflow", str(file), "--workers", "1") as up:
        assert up.url.endswith("/webhook/mine")
        told = convoq("chat", up.url, "--session", "s", cwd=tmp_path, given="My name is Ada\n")
        assert told.returncode == 0, told.stderr
        children = list(up.children())
        assert len(children) >= 3
        assert up.stop() == 0
        assert "stopped" in up.stderr and "error" not in up.stderr
        assert [pid for pid in children if alive(pid)] == []
    with running_up(tmp_path, "--workers", "1") as up:
        asked = convoq(
            "chat", up.url.replace("demo", "mine"), "--session", "s", cwd=tmp_path, given="What is my name?\n"
        )
        assert asked.stdout == "Your name is Ada.\n"


@contextmanager
def asking(up: Up) -> Iterator[IO[str]]:
    """The rest of an answer that is under way."""
    question = up.folder / "question.txt"
    question.write_text("What is 19 * 23?\n")
    command = [*COMMAND, "chat", up.url]
    with (
        question.open() as given,
        subprocess.Popen(command, env=environment(), stdin=given, stdout=subprocess.PIPE, text=True) as chat,
    ):
        assert chat.stdout is not None
        assert chat.stdout.read(5) == "Based"
        yield chat.stdout


def slow_workflow(folder: Path, delay_ms: int) -> str:
    file = folder / "slow.json"
    file.write_text(json.dumps(chat_workflow("slow", delay_ms=delay_ms)))
    return str(file)


def test_a_running_answer_is_finished_before_the_stop(tmp_path: Path) -> None:
    arguments = ("--workflow", slow_workflow(tmp_path, 300), "--workers", "1")
    with running_up(tmp_path, *arguments) as up, asking(up) as answer:
        assert up.stop(signal.SIGTERM) == 0
        assert "Based" + answer.read() == ANSWER


def test_a_second_signal_hurries(tmp_path: Path) -> None:
    arguments = ("--workflow", slow_workflow(tmp_path, 1500), "--workers", "1")
    with running_up(tmp_path, *arguments) as up, asking(up) as answer:
        children = list(up.children())
        up.popen.send_signal(signal.SIGINT)
        until(lambda: "stopping" in up.stderr, "it is stopping")
        assert up.popen.poll() is None
        assert up.stop(signal.SIGINT) == 0
        assert "437" not in answer.read()
        assert [pid for pid in children if alive(pid)] == []


def test_nothing_outlives_a_killed_up(tmp_path: Path) -> None:
    with running_up(tmp_path, "--workers", "1") as up:
        children = list(up.children())
        up.popen.kill()
        up.popen.wait(10)
        until(lambda: not any(map(alive, children)), "all children have ended", timeout_s=40)
    with running_up(tmp_path, "--workers", "1") as up:  # and the folder is free again
        assert ask(up) == ANSWER


def test_the_loss_of_the_api_ends_it(tmp_path: Path) -> None:
    with running_up(tmp_path, "--workers", "1") as up:
        children = list(up.children())
        os.kill(up.child("entry api"), signal.SIGKILL)
        assert up.popen.wait(40) == 1
        assert "error: the API ended with signal SIGKILL" in up.stderr
        assert [pid for pid in children if alive(pid)] == []


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        answer = convoq("up", "--port", str(port), cwd=tmp_path)
    assert answer.returncode == 2
    assert f"port {port}" in one_line(answer.stderr) and "--port" in answer.stderr
    assert not (tmp_path / ".convoq").exists()


def test_an_unreachable_redis_is_named_without_its_password(tmp_path: Path) -> None:
    url = f"redis://me:geheim@127.0.0.1:{free_port()}/0"
    answer = convoq("up", "--port", str(free_port()), cwd=tmp_path, env={"CONVOQ_REDIS_URL": url})
    assert answer.returncode == 1
    assert "CONVOQ_REDIS_URL" in one_line(answer.stderr) and "geheim" not in answer.stderr


@pytest.mark.parametrize(
    ("arguments", "env", "named"),
    [
        ([], {"CONVOQ_DRAIN_S": "soon"}, "CONVOQ_DRAIN_S='soon'"),
        ([], {"CONVOQ_REDIS_URL": "http://127.0.0.1"}, "CONVOQ_REDIS_URL"),
        (["--data", "/dev/null/data"], {}, "--data"),
        (["--host", "192.0.2.1"], {}, "--host"),
        (["--workflow", "missing.json"], {}, "missing.json"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, arguments: list[str], env: dict[str, str], named: str) -> None:
    answer = convoq("up", "--port", str(free_port()), *arguments, cwd=tmp_path, env=env)
    assert answer.returncode == 2
    assert named in one_line(answer.stderr)
