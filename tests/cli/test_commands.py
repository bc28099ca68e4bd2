"""The commands that need no API: run, import, export, list, settings."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from convoq.cli.terminal import printable
from tests.cli.support import convoq
from tests.stack import chat_workflow, flush, free_port, valkey

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def own_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with valkey(tmp_path_factory.mktemp("cli"), save="") as server:
        yield server.connection_url


@pytest.fixture
def stored(own_url: str, tmp_path: Path) -> Run:
    """`convoq` in an empty folder, on an empty server."""
    flush(own_url)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return convoq(*arguments, cwd=tmp_path, env={"CONVOQ_REDIS_URL": own_url})

    return run


def write(folder: Path, name: str, data: object) -> str:
    (folder / name).write_text(json.dumps(data))
    return name


def broken_workflow() -> dict[str, Any]:
    data = chat_workflow("broken")
    data["nodes"][1]["parameters"] = {"options": {"maxIterations": "many"}}
    data["nodes"][4]["type"] = "acme.calculator"
    return data


def test_run_streams_the_answer(tmp_path: Path) -> None:
    file = write(tmp_path, "chat.json", chat_workflow("x"))
    answer = convoq("run", file, "--message", "What is 19 * 23?", cwd=tmp_path)
    assert (answer.returncode, answer.stdout) == (0, "Based on the tools: Calculator returned 437.\n"), answer.stderr


def test_run_json_prints_the_lines_a_client_gets(tmp_path: Path) -> None:
    file = write(tmp_path, "chat.json", chat_workflow("x"))
    answer = convoq("run", file, "-m", "What is 19 * 23?", "--json", cwd=tmp_path)
    lines = [json.loads(line) for line in answer.stdout.splitlines()]
    assert [line["seq"] for line in lines] == list(range(len(lines)))
    assert (lines[0]["type"], lines[-1]["type"]) == ("begin", "end")
    assert "".join(line.get("content", "") for line in lines) == "Based on the tools: Calculator returned 437."


def test_run_tells_a_failure_and_exits_with_1(tmp_path: Path) -> None:
    data = chat_workflow("x", model={"type": "@n8n/n8n-nodes-langchain.lmChatOpenAi", "typeVersion": 1.2})
    file = write(tmp_path, "chat.json", data)
    env = {"OPENAI_API_KEY": "sk-secret", "OPENAI_BASE_URL": f"http://127.0.0.1:{free_port()}/v1"}
    answer = convoq("run", file, "-m", "hello", cwd=tmp_path, env=env)
    assert answer.returncode == 1
    assert "error: " in answer.stderr and "Traceback" not in answer.stderr and "sk-secret" not in answer.stderr


def test_run_needs_a_chat_trigger(tmp_path: Path) -> None:
    data = chat_workflow("x")
    data["nodes"][0]["disabled"] = True
    answer = convoq("run", write(tmp_path, "chat.json", data), "-m", "hello", cwd=tmp_path)
    assert answer.returncode == 1
    assert answer.stderr.startswith("error: workflow file 'chat.json' has no enabled Chat Trigger")


def test_import_tells_of_every_file_what_it_is_fit_for(stored: Run, tmp_path: Path) -> None:
    good, bad = write(tmp_path, "good.json", chat_workflow("good")), write(tmp_path, "bad.json", broken_workflow())
    (tmp_path / "text.json").write_text("{")
    answer = stored("import", bad, good, "text.json", "missing.json")
    assert answer.returncode == 1
    assert "bad.json: stands in the way: 'AI Agent': options.maxIterations: " in answer.stderr
    assert "bad.json: left out: 'Calculator': unknown node type 'acme.calculator'" in answer.stderr
    assert "text.json: " in answer.stderr and "missing.json" in answer.stderr
    assert answer.stderr.splitlines()[-1] == "error: 2 of 4 could not be imported"
    states = {line.split()[0]: line.rpartition("  ")[2] for line in answer.stdout.splitlines()}
    assert states == {"wf-broken": "not runnable", "wf-good": "ready"}


def test_check_reports_and_tries(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    without = chat_workflow("without")
    without["nodes"][4]["type"] = "acme.calculator"
    for name, data in (("good", chat_workflow("good")), ("bad", broken_workflow()), ("without", without)):
        write(folder, f"{name}.json", data)
    (folder / "text.json").write_text("{")
    answer = convoq("check", "mine", "--run", "--json", cwd=tmp_path)
    assert answer.returncode == 1, answer.stderr
    found = json.loads(answer.stdout)
    by_name = {Path(one["file"]).stem: one for one in found["workflows"]}
    assert {name: one["state"] for name, one in by_name.items()} == {
        "bad": "not runnable",
        "good": "ready",
        "text": "unreadable",
        "without": "ready without",
    }
    assert {name: one["trial"]["result"] for name, one in by_name.items() if "trial" in one} == {
        "bad": "failed",
        "good": "answered",
        "without": "answered",
    }
    assert by_name["bad"]["trial"]["node"] == "AI Agent"
    assert found["totals"]["left_out"] == {"acme.calculator": 2}
    shown = convoq("check", "mine/good.json", cwd=tmp_path)
    assert shown.returncode == 0 and "1 workflows: 1 ready" in shown.stdout
    assert convoq("check", "nowhere.json", cwd=tmp_path).returncode == 1


def test_credentials_are_stored_and_never_shown(own_url: str, tmp_path: Path) -> None:
    env = {"CONVOQ_REDIS_URL": own_url, "CONVOQ_ENCRYPTION_KEY": "a long text"}
    flush(own_url)
    added = convoq("credential", "add", "openAiApi", "--name", "Mine", given="sk-secret\n", env=env, cwd=tmp_path)
    assert added.returncode == 0, added.stderr
    given = json.dumps({"host": "db", "password": "pw-secret"})
    assert convoq("credential", "add", "postgres", "--json", given=given, env=env, cwd=tmp_path).returncode == 0
    shown = convoq("credential", "list", env=env, cwd=tmp_path)
    assert "Mine" in shown.stdout and "postgres" in shown.stdout and "secret" not in shown.stdout
    assert convoq("credential", "remove", "Mine", env=env, cwd=tmp_path).returncode == 0
    listed = json.loads(convoq("credential", "list", "--json", env=env, cwd=tmp_path).stdout)
    assert [one["type"] for one in listed] == ["postgres"]
    refused = convoq("credential", "add", "x", "nothing", env=env, cwd=tmp_path)
    assert refused.returncode == 1 and "FIELD=VALUE" in refused.stderr
    keyless = convoq("credential", "add", "x", "a=b", env={"CONVOQ_REDIS_URL": own_url}, cwd=tmp_path)
    assert keyless.returncode == 2 and "CONVOQ_ENCRYPTION_KEY" in keyless.stderr


def test_a_list_without_a_workflow_is_an_error(stored: Run, tmp_path: Path) -> None:
    answer = stored("import", write(tmp_path, "none.json", []))
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr.startswith(
        "none.json: workflow file 'none.json' holds no workflow: no object with `nodes` is in it\n"
    )
    ran = convoq("run", "none.json", "-m", "hello", cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (
        1,
        "error: workflow file 'none.json' holds no workflow: no object with `nodes` is in it\n",
    )


def test_import_tells_of_connections_that_lead_nowhere(stored: Run, tmp_path: Path) -> None:
    data = chat_workflow("dangling")
    data["connections"]["Chat"]["main"][0].append({"node": "Gone", "type": "main", "index": 0})
    answer = stored("import", write(tmp_path, "dangling.json", data))
    assert answer.returncode == 0
    assert "dangling.json: warning: 'Chat' leads to 'Gone', which is not there: left out" in answer.stderr


def test_import_serves_what_n8n_exported_as_inactive(stored: Run, tmp_path: Path) -> None:
    file = write(tmp_path, "off.json", {**chat_workflow("off"), "active": False})
    assert stored("import", file).returncode == 0
    assert json.loads(stored("list", "--json").stdout)[0]["active"] is True
    assert "(inactive)" in stored("import", file, "--inactive").stdout
    assert json.loads(stored("list", "--json").stdout)[0]["active"] is False


def test_import_names_the_owner_of_a_taken_path(stored: Run, tmp_path: Path) -> None:
    first, second = chat_workflow("same"), chat_workflow("same")
    second["id"] = "other"
    answer = stored("import", write(tmp_path, "1.json", first), write(tmp_path, "2.json", second))
    assert answer.returncode == 1
    assert "2.json: path 'same'" in answer.stderr and "'wf-same'" in answer.stderr


def test_what_is_exported_can_be_imported_again(stored: Run, own_url: str, tmp_path: Path) -> None:
    files = [write(tmp_path, f"{name}.json", chat_workflow(name)) for name in ("a", "b")]
    assert stored("import", "--demo", *files).returncode == 0
    everything = stored("export")
    assert [each["id"] for each in json.loads(everything.stdout)] == ["demo", "wf-a", "wf-b"]
    one = json.loads(stored("export", "wf-a").stdout)
    assert {**one, "active": True} == {**chat_workflow("a"), "active": True}
    written = stored("export", "--output", "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["demo.json", "wf-a.json", "wf-b.json"]
    assert written.stdout.split() == ["out/demo.json", "out/wf-a.json", "out/wf-b.json"]
    flush(own_url)
    (tmp_path / "all.json").write_text(everything.stdout)
    assert stored("import", "all.json").returncode == 0
    assert json.loads(stored("export").stdout) == json.loads(everything.stdout)


def test_export_of_an_unknown_id_is_an_error(stored: Run) -> None:
    answer = stored("export", "nobody")
    assert (answer.returncode, answer.stderr) == (1, "error: no workflow with the id 'nobody'\n")


def test_list_is_a_table_for_people(stored: Run, tmp_path: Path) -> None:
    stored("import", "--demo")
    lines = stored("list").stdout.splitlines()
    assert lines[0].split() == ["id", "name", "active", "chat", "path", "updated"]
    assert lines[1].split()[:4] == ["demo", "Demo", "yes", "/webhook/demo"]


def test_a_wrong_setting_is_exit_code_2(tmp_path: Path) -> None:
    answer = convoq("api", cwd=tmp_path, env={"CONVOQ_PORT": "99999", "CONVOQ_API_KEY": "geheim"})
    assert answer.returncode == 2
    assert answer.stderr.startswith("error: CONVOQ_PORT='99999': ") and "geheim" not in answer.stderr


def test_version(tmp_path: Path) -> None:
    assert convoq("--version", cwd=tmp_path).stdout.startswith("convoq 0.")


def test_text_of_others_cannot_steer_the_terminal() -> None:
    assert printable("a\x1b[2Jb\r\x9b1mc\n\tü") == "a[2Jb1mc\n\tü"
