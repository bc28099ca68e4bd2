"""The waits for a model's server: which counts, which does not, and that a real cancellation stays one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from convoq.contract.model import ModelSettings
from convoq.models.patience import AFTER_FINISH_S, Patience

FOREVER_S = 60.0


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await main()

    asyncio.run(bounded())


def patience(first_s: float = FOREVER_S, next_s: float = FOREVER_S) -> Patience:
    return Patience(ModelSettings(first_byte_timeout_s=first_s, between_chunks_timeout_s=next_s))


async def silence() -> None:
    await asyncio.Event().wait()


def test_the_first_byte() -> None:
    async def main() -> None:
        waits = patience(0.05)
        with waits:
            await asyncio.sleep(0)  # the connection is there, the answer is not
        with pytest.raises(TimeoutError), waits:
            await silence()
        assert "sent nothing for 0.05 s after it was asked: the time-out for the first byte" in waits.silence

    run(main)


@pytest.mark.parametrize("first_s", [0.01, FOREVER_S])
def test_between_chunks(first_s: float) -> None:
    async def main() -> None:
        waits = patience(first_s, 0.05)
        with waits:
            await asyncio.sleep(0)
        waits.heard()
        for _ in range(5):
            with waits:
                await asyncio.sleep(0.02)
        with pytest.raises(TimeoutError), waits:
            await silence()
        assert "sent nothing for 0.05 s in the middle of its answer: the time-out between chunks" in waits.silence

    run(main)


def test_after_the_end_the_wait_is_short() -> None:
    async def main() -> None:
        waits = patience()
        waits.heard()
        waits.finished()
        started = asyncio.get_running_loop().time()
        with pytest.raises(TimeoutError), waits:
            await silence()
        assert AFTER_FINISH_S <= asyncio.get_running_loop().time() - started < FOREVER_S / 2

    run(main)


def test_a_slow_reader_is_not_the_servers_silence() -> None:
    async def main() -> None:
        waits = patience(next_s=0.02)
        waits.heard()
        for _ in range(3):
            with waits:
                await asyncio.sleep(0)
            await asyncio.sleep(0.1)
        with pytest.raises(TimeoutError), waits:
            await silence()

    run(main)


def test_a_cancellation_stays_one() -> None:
    async def wait(waits: Patience) -> None:
        with waits:
            await silence()

    async def main() -> None:
        waits = patience()
        task = asyncio.create_task(wait(waits))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        waits.close()

    run(main)


def test_a_timeout_and_a_cancellation_at_once_are_a_cancellation() -> None:
    async def main() -> None:
        waits = patience(0.0)

        async def wait() -> None:
            try:
                with waits:
                    await silence()
            except TimeoutError:
                pytest.fail("the cancellation was lost")

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(task.cancel)
        waits._ring()
        with pytest.raises(asyncio.CancelledError):
            await task
        waits.close()

    run(main)


def test_time_outs_around_it_keep_their_meaning() -> None:
    async def main() -> None:
        waits = patience()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                with waits:
                    await silence()
        task = asyncio.current_task()
        assert task is not None and task.cancelling() == 0
        waits.close()

    run(main)
