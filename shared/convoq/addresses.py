"""Addresses of servers (Redis, databases, models, proxies, callbacks), which may hold a password: how they are shown.

Nothing between the scheme and the last `@` is ever shown, nor what follows a `?`: an address with a password that was
not percent-encoded falls into other parts than its author meant, so that no parser can tell where the password is.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

HIDDEN = "…"
ENCODE = (
    "percent-encode the password and the user's name: %2F for /, %3F for ?, %23 for #, %40 for @, %5B for [, %25 for %"
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def _parts(address: str) -> tuple[str, str, str]:
    """Scheme with its `://`, what may be secret with its `@`, the rest; each may be empty."""
    found = _SCHEME.match(address)
    scheme = found[0] if found else ""
    secret, at, rest = address[len(scheme) :].rpartition("@")
    return scheme, secret + at, rest


def _ports_are_numbers(scheme: str, rest: str) -> bool:
    """Else a password without its @ may stand in the place of a port."""
    hosts = re.split(r"[/?#]", rest)[0].split(",")
    ports = [host.rpartition(":")[2] for host in hosts if ":" in host and not host.endswith("]")]
    return scheme.startswith("unix:") or all(port.isascii() and port.isdigit() for port in ports)


def shown(address: str) -> str:
    """The address without what may be secret, on one line."""
    scheme, secret, rest = _parts(address)
    if not _ports_are_numbers(scheme, rest):
        return scheme + HIDDEN
    place = re.split(r"(?<=[?#])", rest, maxsplit=1)
    text = f"{scheme}{HIDDEN + '@' if secret else ''}{place[0]}{HIDDEN if len(place) > 1 else ''}"
    return "".join(character if character.isprintable() else "�" for character in text)


def fault(address: str) -> str | None:
    """What is wrong with an address, without quoting it: a password not percent-encoded, a port that is none."""
    scheme, secret, rest = _parts(address)
    if scheme == "unix://" and address.startswith("unix:///"):
        return None  # no user: an @ is part of the path
    if re.search(r"[/?#\[\]\s]|@.*@", secret):
        return ENCODE
    if not _ports_are_numbers(scheme, rest):
        return "its port is not a number (a password stands before an @)"
    try:
        urlsplit(address)
    except ValueError:  # it would quote user and password
        return ENCODE if secret else "it is no URL"
    return None


def scrub(text: str) -> str:
    """Somebody else's text, as an exception's, without what may be secret in the addresses that it quotes."""
    return re.sub(r"\S+", _scrub_word, text) if "://" in text and "@" in text else text


def _scrub_word(word: re.Match[str]) -> str:
    before, mark, address = word[0].partition("://")
    _, at, rest = address.rpartition("@")
    return f"{before}{mark}{HIDDEN}@{rest}" if at else word[0]
