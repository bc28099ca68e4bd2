"""`convoq check`: what convoq makes of workflow files, without storing them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from convoq.cli.terminal import printable
from convoq.cli.trial import Trial, try_out
from convoq.credentials.environment import variables_of
from convoq.credentials.lookup import CredentialLookup
from convoq.engine.exports import definitions_in
from convoq.engine.reading import decoded, parse_workflow
from convoq.engine.report import NeededCredential, Report, report_on, unreadable
from convoq.engine.workflow import Workflow
from convoq.errors import ConvoqError, InvalidWorkflow
from convoq.nodes.registry import REGISTRY
from convoq.settings import Settings


@dataclass(frozen=True, slots=True)
class Checked:
    """A workflow of a file, None where it cannot be read."""

    file: str
    report: Report
    workflow: Workflow | None = None
    trial: Trial | None = None

    def as_dict(self) -> dict[str, Any]:
        tried = {} if self.trial is None else {"trial": self.trial.as_dict()}
        return {"file": self.file, **self.report.as_dict(), **tried}


def files_in(paths: Iterable[Path]) -> list[Path]:
    """The files, and of folders all `*.json` below them."""
    return [
        file
        for path in paths
        for file in (sorted(path.rglob("*.json")) if path.is_dir() else [path])
        if not file.is_dir()
    ]


def _bytes_of(file: Path) -> bytes:
    return file.read_bytes()


async def checked(file: Path, credential: CredentialLookup) -> list[Checked]:
    """A report on each workflow in the file. Nothing in a file raises."""
    try:
        definitions = definitions_in(decoded(_bytes_of(file), str(file)))
    except OSError as error:
        return [Checked(str(file), unreadable(file.stem, f"cannot be read: {error.strerror}"))]
    except InvalidWorkflow as error:
        return [Checked(str(file), unreadable(file.stem, "; ".join(fault.message for fault in error.faults)))]
    if not definitions:
        return [Checked(str(file), unreadable(file.stem, "there is no workflow in it: no object with `nodes`"))]
    found = []
    for definition in definitions:
        try:
            workflow = parse_workflow(definition, source=file.stem, registry=REGISTRY)
        except InvalidWorkflow as error:
            found.append(Checked(str(file), unreadable(file.stem, "; ".join(map(str, error.faults[:5])))))
        else:
            found.append(Checked(str(file), await report_on(workflow, credential), workflow))
    return found


async def check_files(settings: Settings, paths: Sequence[Path], *, run: bool, message: str, as_json: bool) -> bool:
    """Print the reports; whether all can be run (and, with `run`, none failed)."""
    credential = CredentialLookup(settings)
    files = files_in(paths)
    if not files:
        raise ConvoqError(f"no workflow file (*.json) in {', '.join(map(str, paths))}")
    results: list[Checked] = []
    for file in files:
        for one in await checked(file, credential):
            if run and one.workflow is not None and one.workflow.chat_triggers():
                one = Checked(one.file, one.report, one.workflow, await try_out(one.workflow, settings, message))
            results.append(one)
    if as_json:
        typer.echo(json.dumps({"workflows": [one.as_dict() for one in results], "totals": totals(results)}, indent=2))
    else:
        _print(results)
    return all(
        one.report.state in ("ready", "ready without") and (one.trial is None or one.trial.result != "failed")
        for one in results
    )


def totals(results: Sequence[Checked]) -> dict[str, Any]:
    """How many of each state and result, and how many workflows each node type stands in the way of."""
    in_the_way: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    for one in results:
        in_the_way.update({reason.type for reason in one.report.in_the_way if reason.type})
        left_out.update({reason.type for reason in one.report.left_out if reason.type})
    return {
        "workflows": len(results),
        "states": dict(Counter(one.report.state for one in results)),
        "results": dict(Counter(one.trial.result for one in results if one.trial is not None)),
        "in_the_way": dict(in_the_way.most_common()),
        "left_out": dict(left_out.most_common()),
    }


def explained(report: Report) -> list[str]:
    """A report in plain words, a line each thing, with what to do."""
    lines = []
    for reason in report.in_the_way:
        lines.append(f"stands in the way: {_named(reason.node)}{reason.why}")
    for reason in report.left_out:
        lines.append(f"left out: {_named(reason.node)}{reason.why}; the agent answers without this tool")
    lines += [_wanted(needed) for needed in report.credentials]
    return lines


def _named(node: str) -> str:
    return f"{node!r}: " if node else ""


def _wanted(needed: NeededCredential) -> str:
    kind = needed.kinds[0]
    called = f" (the file calls it {needed.name!r})" if needed.name else ""
    variables = variables_of(kind)
    otherwise = f", or set {variables[0]}" if variables else ""
    nodes = ", ".join(map(repr, needed.nodes))
    return f"needs a credential of type {kind}{called} for {nodes}: `convoq credential add {kind}`{otherwise}"


STYLES = {
    "ready": "green",
    "ready without": "yellow",
    "not runnable": "red",
    "unreadable": "red",
    "answered": "green",
    "needs the network": "yellow",
    "failed": "red",
}


def _print(results: Sequence[Checked]) -> None:
    tried = any(one.trial is not None for one in results)
    table = Table(
        "file", "workflow", "state", *(["tried"] if tried else []), "what to know", box=None, header_style="bold"
    )
    for one in results:
        said = [*explained(one.report)]
        row = [Text(printable(one.file)), Text(printable(one.report.name)), _styled(one.report.state)]
        if tried:
            row.append(Text("") if one.trial is None else _styled(one.trial.result))
            if one.trial is not None and one.trial.why:
                said.append(one.trial.why)
        table.add_row(*row, Text(printable("\n".join(said))))
    console = Console()
    if not console.is_terminal:
        console.width = 1000  # for grep and its like
    console.print(table)
    found = totals(results)
    console.print(f"\n{found['workflows']} workflows: " + _counted(found["states"]))
    if found["results"]:
        console.print("tried: " + _counted(found["results"]))
    for what, label in (("in_the_way", "stands in the way of"), ("left_out", "is left out of")):
        for kind, count in found[what].items():
            console.print(Text(printable(f"  {kind} {label} {count}")))


def _styled(word: str) -> Text:
    return Text(word, style=STYLES.get(word, ""))


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {word}" for word, count in sorted(counts.items(), key=lambda pair: -pair[1]))
