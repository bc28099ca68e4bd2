from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.cli.support import environment
from tests.stack import ROOT


@pytest.mark.slow
def test_the_bench_runs_and_no_answer_fails() -> None:
    bench = subprocess.run(
        [sys.executable, "-m", "tests.bench", "--quick"],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert bench.returncode == 0, bench.stderr
    assert bench.stdout.splitlines()[-1] == "0 failed answers"
    users = re.findall(r"^ +(1|20|100)(?: +[\d.]+){8} +0$", bench.stdout, re.MULTILINE)
    assert users == ["1", "20", "100"], bench.stdout
