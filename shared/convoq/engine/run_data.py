"""What is kept of a run for people, within a size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from convoq.contract.run_data import NodeRun

_TRUNCATED = [[{"truncated": True}]]
_encode = msgspec.json.Encoder(enc_hook=str).encode


def run_data_json(runs: Sequence[NodeRun], max_bytes: int) -> bytes:
    """A JSON array of the node runs in the order they began, at most `max_bytes` long.

    Over that, the largest lose their items (`{"truncated": true}` stands for them), then the oldest are left out. While
    a workflow runs nothing is measured: the runs only refer to the items, and all is encoded here, once.
    """
    encoded = [_encode(run) for run in runs]
    size = sum(map(len, encoded)) + len(encoded) + 1
    for index in sorted(range(len(encoded)), key=lambda index: -len(encoded[index])):
        if size <= max_bytes:
            break
        short = _encode(_without_items(runs[index]))
        if len(short) < len(encoded[index]):
            size += len(short) - len(encoded[index])
            encoded[index] = short
    first = 0
    while size > max_bytes and first < len(encoded):
        size -= len(encoded[first]) + 1
        first += 1
    return b"[" + b",".join(encoded[first:]) + b"]"


def _without_items(run: NodeRun) -> NodeRun:
    return replace(run, inputs=_TRUNCATED if run.inputs else [], outputs=_TRUNCATED if run.outputs else [])
