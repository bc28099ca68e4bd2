"""A short storm, and the proof that the suite can fail: with a safeguard taken out, the same checks find faults."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.chaos.__main__ import chaos, report
from tests.chaos.storm import Plan

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("chaos")]  # one storm at a time


def test_a_short_storm_breaks_nothing(folder: Path) -> None:
    plan = Plan(seed=7, seconds=16, streams=60, every_s=1.2)
    verdict, storm = asyncio.run(chaos(plan, folder))
    assert verdict.good, report(verdict, storm)
    assert set(storm.struck) == set(plan.faults)
    assert verdict.complete > plan.streams and verdict.explicit_errors and verdict.detected


def test_without_gap_filling_it_reports_lost_chunks(folder: Path) -> None:
    """Pub/sub alone, whose connections are cut."""
    plan = Plan(seed=3, seconds=6, streams=20, faults=("cut",), every_s=1, sabotage="gaps", patience_s=2)
    verdict, storm = asyncio.run(chaos(plan, folder))
    assert not verdict.good
    assert verdict.hung and verdict.lost_chunks, report(verdict, storm)


def test_without_fencing_it_reports_broken_order(folder: Path) -> None:
    """Workers that were taken for dead wake up and go on."""
    plan = Plan(
        seed=3, seconds=12, streams=30, faults=("freeze worker",), every_s=1.5, sabotage="fencing", patience_s=4
    )
    verdict, storm = asyncio.run(chaos(plan, folder))
    assert not verdict.good
    assert verdict.order_broken, report(verdict, storm)
