"""Texts that many ask for: compressed once, and not sent again to who has them already."""

from __future__ import annotations

import gzip
import hashlib
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.requests import Request as HttpRequest
from starlette.responses import Response


@dataclass(frozen=True, slots=True)
class Document:
    """`packed` is the gzipped text, the only form in which it is kept; `etag` names its content."""

    packed: bytes
    media_type: str
    etag: str
    headers: Mapping[str, str]

    @classmethod
    def of(cls, text: str, media_type: str, headers: Mapping[str, str] | None = None) -> Document:
        data = text.encode()
        etag = f'W/"{hashlib.sha256(data).hexdigest()[:32]}"'  # weak: it names what is in it, however it is sent
        own = {"Cache-Control": "no-cache", "ETag": etag, "Vary": "Accept-Encoding"}
        return cls(gzip.compress(data, 9, mtime=0), media_type, etag, {**own, **(headers or {})})

    def answer(self, http: HttpRequest) -> Response:
        """304 for who names its ETag, gzip for who takes it."""
        known = [tag.strip() for tag in http.headers.get("if-none-match", "").split(",")]
        if "*" in known or {self.etag, self.etag.removeprefix("W/")}.intersection(known):
            return Response(status_code=304, headers=dict(self.headers))
        if _takes_gzip(http.headers.get("accept-encoding", "")):
            return Response(
                self.packed, headers={**self.headers, "Content-Encoding": "gzip"}, media_type=self.media_type
            )
        return Response(gzip.decompress(self.packed), headers=dict(self.headers), media_type=self.media_type)


@dataclass(slots=True)
class Inlined:
    """The scripts and styles of one page, and the policy by which a browser runs them and no others. No nonce: the page
    may be kept and compared."""

    scripts: list[str] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)

    def script(self, text: str) -> str:
        """The element. `text` must not hold its end."""
        self.scripts.append(_hash(text))
        return f"<script>{text}</script>"

    def style(self, text: str) -> str:
        self.styles.append(_hash(text))
        return f"<style>{text}</style>"

    def headers(self, *, frame_ancestors: str) -> dict[str, str]:
        policy = (
            "default-src 'none'",
            " ".join(["script-src", *(self.scripts or ["'none'"])]),
            " ".join(["style-src", *(self.styles or ["'none'"])]),
            "connect-src 'self'",
            "img-src 'self' data:",
            "font-src 'self' data:",
            "base-uri 'none'",
            "form-action 'none'",
            f"frame-ancestors {frame_ancestors}",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
        return {
            "Content-Security-Policy": "; ".join(policy),
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
        }


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _takes_gzip(accept: str) -> bool:
    for part in accept.lower().split(","):
        coding, _, quality = part.partition(";")
        if coding.strip() in ("gzip", "*"):
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
