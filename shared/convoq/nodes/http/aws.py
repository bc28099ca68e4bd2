"""AWS Signature Version 4, as https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from urllib.parse import quote

from yarl import URL

from convoq.nodes.http.request import Sign

_ALGORITHM = "AWS4-HMAC-SHA256"


def signer(
    key_id: str, secret: str, region: str, token: str = "", now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> Sign:
    """Signs for the service and the region that the host names (`ec2.us-east-1.amazonaws.com`), or else `region`."""

    def sign(method: str, url: URL, body: bytes) -> Mapping[str, str]:
        host = url.raw_host or ""
        service, its_region = _place(host, region)
        moment = now().strftime("%Y%m%dT%H%M%SZ")
        digest = hashlib.sha256(body).hexdigest()
        signed = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": moment}
        if token:
            signed["x-amz-security-token"] = token
        path = url.raw_path if service == "s3" else quote(url.raw_path, safe="/-_.~")
        query = "&".join(
            sorted(f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}" for name, value in url.query.items())
        )
        names = ";".join(sorted(signed))
        heads = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
        canonical = "\n".join((method, path or "/", query, heads, names, digest))
        scope = f"{moment[:8]}/{its_region}/{service}/aws4_request"
        text = "\n".join((_ALGORITHM, moment, scope, hashlib.sha256(canonical.encode()).hexdigest()))
        key = f"AWS4{secret}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.new(key, text.encode(), "sha256").hexdigest()
        del signed["host"]
        return {
            **signed,
            "authorization": f"{_ALGORITHM} Credential={key_id}/{scope}, SignedHeaders={names}, Signature={signature}",
        }

    return sign


def _place(host: str, region: str) -> tuple[str, str]:
    """`SERVICE.REGION.amazonaws.com`, `SERVICE.amazonaws.com`, `BUCKET.s3.REGION.amazonaws.com`."""
    parts = host.removesuffix(".cn").removesuffix(".amazonaws.com").split(".")
    if "s3" in parts:
        parts = parts[parts.index("s3") :]
    return parts[0], parts[1] if len(parts) > 1 else region
