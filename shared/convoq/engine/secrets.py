"""What must not be read in run data and error texts: the secrets that an execution has used."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

MASK = "•••"
MIN_CHARS = 6
"""Shorter than that, masking would spoil texts that only happen to contain it."""
_SECRET = re.compile(
    r"key|token|secret|passw|passphrase|auth|private|cert|signature|^value$|^data$|connectionstring", re.I
)


class Secrets:
    """Collects them as nodes open credentials, and masks them wherever they turn up."""

    def __init__(self) -> None:
        self._values: set[str] = set()

    def add(self, fields: Mapping[str, Any]) -> None:
        """Of a credential's fields those that are secret by their name."""
        for name, value in fields.items():
            if isinstance(value, Mapping):
                self.add(value)
            elif isinstance(value, str) and len(value) >= MIN_CHARS and _SECRET.search(name):
                self._values.add(value)

    def mask(self, text: str) -> str:
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, MASK)
        return text

    def mask_json(self, encoded: bytes) -> bytes:
        """The same in JSON text, where a secret may stand escaped."""
        for value in sorted(self._values, key=len, reverse=True):
            for form in {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}:
                encoded = encoded.replace(form.encode(), MASK.encode())
        return encoded
