"""The terminal says where an answer was cut off."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from convoq.cli.chat import chat
from tests.api.serving import serving
from tests.models.server import DONE, delta, streams
from tests.stack import chat_workflow

LONG = streams(delta("Nice "), delta("day"), delta(None, "length"), DONE)


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "json"])
def test_convoq_run(tmp_path: Path, options: list[str]) -> None:
    with serving(LONG) as server:
        model = {
            "type": "@n8n/n8n-nodes-langchain.lmChatOpenAi",
            "typeVersion": 1.2,
            "parameters": {"options": {"baseURL": server.url}},
        }
        file = tmp_path / "w.json"
        file.write_text(json.dumps(chat_workflow("cut", model=model)))
        command = [sys.executable, "-m", "convoq.cli.entry", "run", str(file), "-m", "Hi", *options]
        shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    if options:
        lines = [json.loads(line) for line in shown.stdout.splitlines()]
        assert lines[-1]["metadata"]["finishReason"] == "length"
    else:
        assert shown.stdout == "Nice day\n"
        assert "(cut off at the model's limit)" in shown.stderr
    assert "an answer was cut off" in shown.stderr


def test_convoq_chat(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    place = {"nodeId": "a", "nodeName": "Agent"}
    lines = [
        {"type": "begin", "metadata": place, "seq": 0},
        {"type": "item", "content": "Nice day", "metadata": place, "seq": 1},
        {"type": "end", "metadata": {**place, "finishReason": "content_filter"}, "seq": 2},
    ]
    body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    said = iter(["Hi"])

    def typed(prompt: str) -> str:
        try:
            return next(said)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", typed)
    with serving(streams(body, content_type="application/x-ndjson")) as server:
        assert chat(f"{server.url}/webhook/x", "s", {}) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("Nice day")
    assert "(cut off by the provider's content filter)" in shown.err
