"""What a worker writes is what a client reads: every chunk once and in order, whatever the channel does."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from convoq import keys
from convoq.delivery.entries import Entry, number, read_log
from convoq.errors import ExecutionFailed, Fenced, Gone, StreamTooLarge
from convoq.protocol import decode_line
from convoq.redis import async_client
from tests.stream.support import DONE, chunk, entries, eventually, read, seqs, wire


def lines(found: list[Entry]) -> list[str]:
    """The texts of the chunks, which are numbered without a gap from the first on."""
    chunks = [msgspec.json.decode(line) for entry in found for line in entry.lines.splitlines()]
    assert [one["seq"] for one in chunks] == list(range(found[0].first, found[0].first + len(chunks)))
    return [one["content"] for one in chunks]


def test_the_first_chunk_is_sent_at_once_and_what_comes_meanwhile_together(redis_url: str) -> None:
    async def run() -> None:
        async with wire(redis_url) as w:
            execution_id = await w.begin()
            writer = w.writer(execution_id)
            async with w.hub.reader(execution_id) as reader:
                await writer.send(chunk("first"))
                (first,) = await read(reader, 1)
                assert (first.first, first.count) == (0, 1)
                for k in range(500):
                    await writer.send(chunk(k))
                    await asyncio.sleep(0)  # a model's tokens come with turns of the loop between them
                await writer.flush()
                found: list[Entry] = []
                while not found or found[-1].next < 501:
                    found += await read(reader, 1)
            assert lines([first, *found]) == ["first", *map(str, range(500))]
            assert await w.length(execution_id) == 1 + len(found)
            assert len(found) < 250

    asyncio.run(run())


def test_an_idle_writer_sends_each_chunk_by_itself(redis_url: str) -> None:
    async def run() -> None:
        async with wire(redis_url) as w:
            execution_id = await w.begin()
            writer = w.writer(execution_id)
            for k in range(5):
                await writer.send(chunk(k))
                await writer.flush()
            assert await w.length(execution_id) == 5
            assert [entry.count for entry in await read_log(w.pipe, execution_id, 0)] == [1] * 5

    asyncio.run(run())


def test_a_writer_holds_back_what_is_faster_than_redis(redis_url: str) -> None:
    async def run() -> None:
        async with wire(redis_url) as w:
            client = async_client(redis_url)
            writer = w.writer(await w.begin())
            sent = 0

            async def produce() -> None:
                nonlocal sent
                for _ in range(1000):
                    await writer.send(chunk("x" * 800))  # a kilobyte as a line
                    sent += 1

            await client.client_pause(60_000, all=False)
            try:
                producing = asyncio.create_task(produce())
                most = writer.HIGH_WATER_BYTES // 1000
                await eventually(lambda: sent >= most, "a full buffer")
                for _ in range(50):
                    await asyncio.sleep(0)
                assert sent <= most + writer.BATCH_BYTES // 1000 + 1
                assert not producing.done()
            finally:
                await client.client_unpause()
                await client.aclose()
            await producing
            await writer.flush()
            assert writer.next == sent == 1000

    asyncio.run(run())


def test_close_leaves_the_unsent_to_the_last_entry(redis_url: str) -> None:
    async def run() -> None:
        async with wire(redis_url) as w:
            execution_id = await w.begin()
            writer = w.writer(execution_id)
            for k in range(10):
                await writer.send(chunk(k))
            first, unsent = await writer.close()
            logged = await read_log(w.pipe, execution_id, 0)
            assert first == writer.next == sum(entry.count for entry in logged)
            assert lines([*logged, number(unsent, first)]) == [str(k) for k in range(10)]

    asyncio.run(run())


def test_no_entry_is_large(redis_url: str) -> None:
    """Neither those of a model that talks without a pause, nor what is left for the last one."""

    async def run() -> None:
        async with wire(redis_url) as w:
            execution_id = await w.begin()
            writer = w.writer(execution_id)
            for _ in range(100):
                await writer.send(chunk("x" * 10_000))
            _, unsent = await writer.close()
            logged = await read_log(w.pipe, execution_id, 0)
            assert sum(entry.count for entry in logged) + len(unsent) == 100
            assert max(entry.count for entry in logged) == 4
            assert len(unsent) <= 4

    asyncio.run(run())


def test_a_writer_whose_attempt_was_taken_over_is_fenced(redis_url: str) -> None:
    async def run() -> None:
        async with wire(redis_url) as w:
            execution_id = await w.begin()
            writer = w.writer(execution_id)
            await writer.send(chunk("before"))
            await writer.flush()
            await w.pipe.command("HSET", keys.execution(execution_id), "token", "t2")
            await writer.send(chunk("after"))
            with pytest.raises(Fenced):
                await writer.flush()
            with pytest.raises(Fenced):
                await writer.send(chunk("later"))
            with pytest.raises(Fenced):
                await writer.close()
            assert lines(await read_log(w.pipe, execution_id, 0)) == ["before"]

    asyncio.run(run())


def test_nothing_is_written_after_the_end(redis_url: str) -> None:
    async def run() -> None:
        async with wire(redis_url) as w:
            execution_id = await w.begin()
            await w.pipe.command("HSET", keys.execution(execution_id), "status", "success")
            writer = w.writer(execution_id)
            await writer.send(chunk("late"))
            with pytest.raises(Fenced):
                await writer.flush()
            assert await w.length(execution_id) == 0

    asyncio.run(run())


@pytest.mark.parametrize("limit", [{"stream_max_bytes": 1024}, {"stream_max_chunks": 100}])
def test_a_stream_has_a_largest_size(redis_url: str, limit: dict[str, int]) -> None:
    async def run() -> None:
        async with wire(redis_url, **limit) as w:
            execution_id = await w.begin()
            writer = w.writer(execution_id)
            with pytest.raises(StreamTooLarge, match=str(*limit.values())):
                for k in range(200):
                    await writer.send(chunk(k))
                    await writer.flush()
            logged = await read_log(w.pipe, execution_id, 0, count=500)
            assert sum(len(entry.lines) for entry in logged) <= w.settings.stream_max_bytes
            assert 0 < sum(entry.count for entry in logged) <= w.settings.stream_max_chunks

    asyncio.run(run())


def test_a_log_that_was_lost_is_noticed(redis_url: str) -> None:
    """As after a Redis that came back without its last second."""

    async def run() -> None:
        async with wire(redis_url) as w:
            execution_id = await w.begin()
            writer = w.writer(execution_id)
            await writer.send(chunk("one"))
            await writer.flush()
            await w.pipe.command("HSET", keys.execution(execution_id), "seq", 0)
            await writer.send(chunk("two"))
            with pytest.raises(ExecutionFailed, match="chunk 1"):
                await writer.flush()

    asyncio.run(run())


def test_the_log_is_kept_for_its_time(redis_url: str) -> None:
    async def run() -> None:
        async with wire(redis_url, stream_ttl_s=100) as w:
            execution_id = await w.begin()
            writer = w.writer(execution_id)
            await writer.send(chunk("x"))
            await writer.flush()
            assert 0 < await w.pipe.command("TTL", keys.stream_log(execution_id)) <= 100

    asyncio.run(run())


def test_a_reader_fills_what_the_channel_lost_from_the_log(redis_url: str) -> None:
    async def run() -> None:
        async with wire(redis_url) as w:
            execution_id = await w.begin()
            made = entries(1, 2, 3, 1, 4)
            async with w.hub.reader(execution_id) as reader:
                await w.log(execution_id, *made)
                await w.publish(execution_id, made[0], made[3])
                found = await read(reader)
            assert lines(found) == [str(k) for k in range(11)]
            assert found[-1].end == DONE

    asyncio.run(run())


def test_a_reader_that_hears_nothing_looks_into_the_log(redis_url: str) -> None:
    async def run() -> None:
        async with wire(redis_url) as w:
            execution_id = await w.begin()
            async with w.hub.reader(execution_id) as reader:
                await w.log(execution_id, *entries(3))
                assert await reader.next(0.01) is None
                assert lines(await read(reader)) == ["0", "1", "2"]

    asyncio.run(run())


def test_a_reader_gives_nothing_twice(redis_url: str) -> None:
    async def run() -> None:
        async with wire(redis_url) as w:
            execution_id = await w.begin()
            a, b, c, end = entries(2, 2, 2)
            a_and_b = number([chunk(k) for k in range(4)], 0)
            async with w.hub.reader(execution_id) as reader:
                await w.publish(execution_id, a, a, a_and_b, b, a, c, c, b, end, end)
                found = await read(reader)
            assert lines(found) == [str(k) for k in range(6)]

    asyncio.run(run())


def test_a_reader_may_begin_anywhere(redis_url: str) -> None:
    async def run() -> None:
        async with wire(redis_url) as w:
            execution_id = await w.begin()
            await w.log(execution_id, *entries(3, 3, 3))
            for seq in range(9):
                reader = w.hub.reader(execution_id, seq)
                await reader.join_late()
                assert seqs(await read(reader)) == list(range(seq, 9))
                reader.close()

    asyncio.run(run())


def test_a_reader_that_comes_late_hears_what_is_said_meanwhile(redis_url: str) -> None:
    async def run() -> None:
        async with wire(redis_url) as w:
            execution_id = await w.begin()
            writer = w.writer(execution_id)
            readers = []
            for k in range(60):
                if k % 3 == 0:
                    reader = w.hub.reader(execution_id)
                    await reader.join_late()
                    readers.append(reader)
                await writer.send(chunk(k))
            await writer.flush()
            await w.log(execution_id, number([], 60, DONE))
            await w.publish(execution_id, number([], 60, DONE))
            for reader in readers:
                assert lines(await read(reader)) == [str(k) for k in range(60)]
                reader.close()

    asyncio.run(run())


def test_a_log_longer_than_a_page(redis_url: str) -> None:
    async def run() -> None:
        async with wire(redis_url) as w:
            execution_id = await w.begin()
            await w.log(execution_id, *entries(*[1] * 350))
            reader = w.hub.reader(execution_id)
            await reader.join_late()
            assert seqs(await read(reader)) == list(range(350))
            reader.close()

    asyncio.run(run())


def test_a_slow_reader_holds_no_more_than_its_buffer(redis_url: str) -> None:
    async def run() -> None:
        async with wire(redis_url, client_buffer_bytes=2048) as w:
            execution_id = await w.begin()
            made = entries(*[1] * 400)
            async with w.hub.reader(execution_id) as reader, w.hub.reader(execution_id) as witness:
                most = 0
                for entry in made:
                    await w.log(execution_id, entry)
                    await w.publish(execution_id, entry)
                    if entry.end is None:
                        assert await read(witness, 1)
                    most = max(most, sum(len(held.lines) for held in reader._live))
                assert 1024 < most <= 2048
                assert seqs(await read(reader)) == list(range(400))

    asyncio.run(run())


def test_readers_of_other_streams_are_left_alone(redis_url: str) -> None:
    async def run() -> None:
        async with wire(redis_url) as w:
            one, two = await w.begin(), await w.begin()
            async with w.hub.reader(one) as reader, w.hub.reader(two) as other:
                await w.publish(one, *entries(2))
                assert seqs(await read(reader)) == [0, 1]
                assert await other.next(0.01) is None

    asyncio.run(run())


def test_a_reader_whose_client_has_left_ends(redis_url: str) -> None:
    async def run() -> None:
        async with wire(redis_url) as w:
            execution_id = await w.begin()
            async with w.hub.reader(execution_id) as reader:
                waiting = asyncio.create_task(reader.next(30))
                await asyncio.sleep(0)
                reader.leave()
                assert await waiting is None
                assert reader.left

    asyncio.run(run())


def test_a_channel_without_readers_is_left(redis_url: str) -> None:
    async def run() -> None:
        async with wire(redis_url) as w:
            execution_id = await w.begin()
            channel = keys.execution(execution_id)
            async with w.hub.reader(execution_id), w.hub.reader(execution_id):
                assert await w.pipe.command("PUBSUB", "NUMSUB", channel) == [channel.encode(), 1]
            async with w.hub.reader(await w.begin()):  # its confirmation comes after the farewell
                assert await w.pipe.command("PUBSUB", "NUMSUB", channel) == [channel.encode(), 0]

    asyncio.run(run())


@pytest.mark.parametrize("status", [None, "success", "error"])
def test_a_stream_that_is_not_kept_any_more_is_gone(redis_url: str, status: str | None) -> None:
    async def run() -> None:
        async with wire(redis_url) as w:
            execution_id = await w.begin()
            record = keys.execution(execution_id)
            await (w.pipe.command("HSET", record, "status", status) if status else w.pipe.command("DEL", record))
            async with w.hub.reader(execution_id) as reader:
                with pytest.raises(Gone, match=execution_id):
                    await reader.next(0.01)

    asyncio.run(run())


def test_a_log_with_a_hole_is_gone_from_there_on(redis_url: str) -> None:
    async def run() -> None:
        async with wire(redis_url) as w:
            execution_id = await w.begin()
            first, _, third, end = entries(2, 2, 2)
            await w.log(execution_id, first, third, end)
            reader = w.hub.reader(execution_id)
            await reader.join_late()
            assert seqs(await read(reader, 1)) == [0, 1]
            with pytest.raises(Gone, match="from 2 to 4"):
                await reader.next(1)
            reader.close()

    asyncio.run(run())


def test_no_chunk_is_lost_when_the_channels_connection_breaks(redis_url: str) -> None:
    async def run() -> None:
        async with wire(redis_url) as w:
            execution_id = await w.begin()
            writer = w.writer(execution_id)
            async with w.hub.reader(execution_id) as reader:
                reading = asyncio.create_task(read(reader, timeout_s=0.5))
                for k in range(300):
                    if k % 60 == 30:
                        await w.pipe.command("CLIENT", "KILL", "TYPE", "pubsub")
                    await writer.send(chunk(k))
                    await writer.flush()
                await w.log(execution_id, number([], 300, DONE))
                await w.publish(execution_id, number([], 300, DONE))
                found = await reading
            assert lines(found) == [str(k) for k in range(300)]

    asyncio.run(run())


def test_every_line_of_the_wire_can_be_read_again() -> None:
    """What `decode_line` knows is what `number` writes."""
    entry = number([chunk("a\nb\u2028c"), chunk("")], 7)
    decoded = [decode_line(line) for line in entry.lines.split(b"\n")[:-1]]
    assert [(one.content, one.seq) for one in decoded] == [("a\nb\u2028c", 7), ("", 8)]  # type: ignore[union-attr]
    assert Entry.unpack(entry.pack()) == entry
    assert Entry.unpack(number([], 3, DONE).pack()).end == DONE


@pytest.mark.parametrize(("seq", "left"), [(0, "abc"), (5, "abc"), (6, "bc"), (7, "c"), (8, ""), (9, "")])
def test_the_rest_of_an_entry(seq: int, left: str) -> None:
    entry = number([chunk("a"), chunk("b"), chunk("c")], 5, DONE).after(seq)
    assert "".join(msgspec.json.decode(line)["content"] for line in entry.lines.splitlines()) == left
    assert entry.count == len(left)
    assert entry.end == DONE
