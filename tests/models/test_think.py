"""Reasoning in the text, wherever the pieces are cut."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convoq.models.think import MAX_HELD_CHARS, TAGS, ThinkFilter


def read(pieces: Sequence[str]) -> tuple[str, str]:
    """(reasoning, text)"""
    think = ThinkFilter()
    parts = [("", piece) if think.done else think.feed(piece) for piece in pieces]
    parts.append(think.close())
    return "".join(reasoning for reasoning, _ in parts), "".join(text for _, text in parts)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello", ("", "Hello")),
        ("  Hello ", ("", "  Hello ")),
        ("<think>Hm.</think>Hello", ("Hm.", "Hello")),
        ("\n<think>\nHm.\n</think>\n\nHello <think>not</think>", ("\nHm.\n", "Hello <think>not</think>")),
        ("<think></think>Hello", ("", "Hello")),
        ("<think>a</think> <think>b</think> c", ("ab", "c")),
        ("<think>a</thin</think>b", ("a</thin", "b")),
        ("<think>a<think>b</think>c", ("a<think>b", "c")),
        ("<think>Hm", ("Hm", "")),
        ("<think>Hm</thi", ("Hm</thi", "")),
        ("<think>Hm</think>", ("Hm", "")),
        ("<think>Hm</think>  \n", ("Hm", "")),
        ("[THINK]Hm[/THINK]Hello", ("Hm", "Hello")),
        ("<seed:think>Hm</think></seed:think>Hello", ("Hm</think>", "Hello")),
        ("<thinking>Hm</thinking>Hello", ("", "<thinking>Hm</thinking>Hello")),
        ("</think>Hello", ("", "</think>Hello")),
        ("Hello</think>", ("", "Hello</think>")),
        ("<", ("", "<")),
        ("  <thin", ("", "  <thin")),
        ("<table>", ("", "<table>")),
        ("[1] Hello", ("", "[1] Hello")),
        ("", ("", "")),
        (" \n", ("", "")),
    ],
)
def test_each_way_to_cut_it(text: str, expected: tuple[str, str]) -> None:
    assert read([text]) == expected
    assert read(list(text)) == expected
    for first in range(len(text) + 1):
        for second in range(first, len(text) + 1):
            assert read([text[:first], text[first:second], text[second:]]) == expected


ALPHABET = [*TAGS, *TAGS.values(), "<", "/", "think>", " ", "\n", "a", "[", "]"]


@given(st.lists(st.sampled_from(ALPHABET), max_size=12), st.data())
def test_the_cuts_change_nothing(pieces: list[str], data: st.DataObject) -> None:
    text = "".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    parts = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert read(parts) == read([text])


def test_the_first_word_is_not_held_back() -> None:
    think = ThinkFilter()
    assert think.feed("Hel") == ("", "Hel")
    assert think.done


def test_reasoning_comes_as_it_is_thought() -> None:
    think = ThinkFilter()
    assert think.feed("<think>Hm, ") == ("Hm, ", "")
    assert think.feed("well </") == ("well ", "")
    assert think.feed("b>") == ("</b>", "")


def test_white_space_without_end_is_not_kept() -> None:
    think = ThinkFilter()
    for _ in range(MAX_HELD_CHARS * 3):
        assert think.feed(" ") == ("", "")
    assert think.feed("a") == ("", " " * MAX_HELD_CHARS + "a")
