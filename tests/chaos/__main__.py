"""`make chaos`: many conversations while processes die, freeze and lose connections; one table of what went wrong.

Real processes (two APIs, three workers), a real Valkey behind a proxy, a model whose every word says whose it is. Exit
code 1 where a fault column is not 0 or a fault took 5 s or more to be told. What was found is listed below the table.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.chaos.cluster import running_cluster
from tests.chaos.storm import Plan, Storm
from tests.chaos.verdict import Verdict, judge

NOTES_MAX = 40


async def chaos(plan: Plan, folder: Path) -> tuple[Verdict, Storm]:
    async with running_cluster(folder, plan.sabotage) as cluster:
        storm = Storm(plan, cluster)
        await storm.rage()
        return await judge(storm), storm


def report(verdict: Verdict, storm: Storm) -> str:
    struck = ", ".join(f"{count} x {name}" for name, count in sorted(Counter(storm.struck).items()))
    endings = ", ".join(f"{count} {name or 'none'}" for name, count in sorted(verdict.endings.items()))
    lines = [
        f"seed {storm.plan.seed}, {storm.plan.streams} streams, {storm.plan.seconds:g} s: {struck}",
        f"{len(storm.cluster.victims)} executions hit, {verdict.detected} of them told of; endings: {endings}",
        "",
        verdict.table(),
    ]
    if verdict.notes:
        lines += ["", *verdict.notes[:NOTES_MAX], f"({len(verdict.notes)} notes)"]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=150.0, help="length of the storm")
    parser.add_argument("--streams", type=int, default=200, help="conversations at once")
    parser.add_argument("--sabotage", choices=("fencing", "gaps"), help="take a safeguard out: faults must show")
    parser.add_argument("--keep", type=Path, help="folder for the logs, kept")
    options = parser.parse_args()
    plan = Plan(options.seed, options.seconds, options.streams, sabotage=options.sabotage)
    folder = options.keep or Path(tempfile.mkdtemp(prefix="convoq-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    verdict, storm = asyncio.run(chaos(plan, folder))
    print(report(verdict, storm))
    if verdict.good and options.keep is None:
        shutil.rmtree(folder)
    elif not verdict.good:
        print(f"logs: {folder}", file=sys.stderr)
    sys.exit(not verdict.good)


if __name__ == "__main__":
    main()
