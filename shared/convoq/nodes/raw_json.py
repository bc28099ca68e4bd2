"""JSON that a parameter writes as a text with expressions in it: `={"a": "{{ $json.a }}", "n": {{ $json.n }}}`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from convoq.contract.context import Context
from convoq.expressions.field_types import json_text
from convoq.expressions.template import pieces


async def raw_json(ctx: Context[Any], template: object, item_index: int = 0) -> Any:
    """The JSON value, with the expressions evaluated on that item.

    Their objects and arrays stand in it as JSON. Texts are put in as they are; only where that spoils the JSON, because
    somebody wrote a quotation mark, are they escaped. Raises `ValueError` for what is no JSON, `ExpressionFailed`.
    """
    if not isinstance(template, str):
        return await ctx.evaluate(template, item_index)
    if not template.startswith("="):
        return parsed(template)
    texts, expressions = pieces(template)
    values = await ctx.evaluate(expressions, item_index)
    if len(values) == 1 and not any(texts) and not isinstance(values[0], str):
        return values[0]
    try:
        return parsed(_joined(texts, values, str))
    except ValueError:
        try:
            return parsed(_joined(texts, values, lambda text: json.dumps(text)[1:-1]))
        except ValueError:
            pass
        raise


def parsed(text: str) -> Any:
    """Not strictly: an expression may have put a line break into a string. Raises `ValueError`."""
    try:
        return json.loads(text, strict=False)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    except RecursionError:
        raise ValueError("not JSON: nested too deeply") from None


def _joined(texts: Sequence[str], values: Sequence[Any], written: Callable[[str], str]) -> str:
    shown = [written(value) if isinstance(value, str) else json_text(value) for value in values]
    return "".join(piece for pair in zip(texts, [*shown, ""], strict=True) for piece in pair)
