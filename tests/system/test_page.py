"""The chat page of the running product in a real Chromium: what a visitor sees and does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, expect

from tests.browser import browser
from tests.stack import Stack, chat_workflow

__all__ = ["browser"]

pytestmark = pytest.mark.browser


@dataclass
class Visitor:
    page: Page
    console: list[str] = field(default_factory=list)

    @property
    def answer(self) -> Locator:
        return self.page.locator(".chat-message-from-bot .chat-message-markdown").last

    def say(self, text: str) -> None:
        box = self.page.get_by_role("textbox", name="Message")
        box.fill(text)
        box.press("Enter")


@pytest.fixture(scope="module")
def chat(product: Stack) -> str:
    options: dict[str, Any] = {
        "title": "Demo chat",
        "subtitle": "Answers by the mock model",
        "loadPreviousSession": "memory",
    }
    product.install(chat_workflow("page", **options))
    product.install(chat_workflow("slow-page", delay_ms=150, **options))
    return f"http://127.0.0.1:{product.port}/webhook"


@pytest.fixture
def visitor(browser: Browser) -> Iterator[Visitor]:
    context = browser.new_context(viewport={"width": 1100, "height": 720}, color_scheme="light")
    visitor = Visitor(context.new_page())

    def keep(line: ConsoleMessage) -> None:
        if line.type == "error":
            visitor.console.append(line.text)

    visitor.page.on("console", keep)
    visitor.page.on("pageerror", lambda error: visitor.console.append(str(error)))
    yield visitor
    context.close()


def test_a_conversation_with_tools_and_memory(chat: str, visitor: Visitor, folder: Path) -> None:
    visitor.page.goto(f"{chat}/page")
    expect(visitor.page).to_have_title("Demo chat")
    visitor.say("What is 19 * 23?")
    expect(visitor.answer).to_have_text("Based on the tools: Calculator returned 437.")
    visitor.say("my name is Ada")
    expect(visitor.answer).to_have_text("Nice to meet you, Ada.")
    visitor.say("What is my name?")
    expect(visitor.answer).to_have_text("Your name is Ada.")
    expect(visitor.page.locator(".chat-message-from-user")).to_have_count(3)
    visitor.page.screenshot(path=folder / "chat.png")
    assert visitor.console == []


def test_a_returning_visitor_sees_what_was_said_before(chat: str, visitor: Visitor) -> None:
    visitor.page.goto(f"{chat}/page")
    visitor.say("my name is Grace")
    expect(visitor.answer).to_have_text("Nice to meet you, Grace.")
    visitor.page.reload()
    expect(visitor.answer).to_have_text("Nice to meet you, Grace.")
    visitor.say("What is my name?")
    expect(visitor.answer).to_have_text("Your name is Grace.")
    assert visitor.console == []


def test_reloading_in_mid_answer_the_answer_goes_on(chat: str, visitor: Visitor) -> None:
    visitor.page.goto(f"{chat}/slow-page")
    visitor.say("hello")
    expect(visitor.answer).to_contain_text("mock")
    visitor.page.reload()
    expect(visitor.answer).to_contain_text("what 19 * 23 is.", timeout=15_000)
    expect(visitor.page.locator(".chat-message-from-user")).to_have_count(1)
    assert visitor.console == []


def test_stop_ends_the_answer(chat: str, visitor: Visitor) -> None:
    visitor.page.goto(f"{chat}/slow-page")
    visitor.say("hello")
    expect(visitor.answer).to_contain_text("mock")
    visitor.page.get_by_role("button", name="Stop").click()
    expect(visitor.page.locator('[aria-busy="true"]')).to_have_count(0, timeout=3000)
    expect(visitor.answer).not_to_contain_text("19 * 23")
    visitor.say("my name is Ada")
    expect(visitor.answer).to_contain_text("Nice to meet you, Ada.", timeout=10_000)
    assert visitor.console == []


def test_on_a_phone_in_the_dark(chat: str, browser: Browser, folder: Path) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme="dark", has_touch=True)
    visitor = Visitor(context.new_page())
    visitor.page.goto(f"{chat}/page")
    visitor.say("What is 6 * 7?")
    expect(visitor.answer).to_have_text("Based on the tools: Calculator returned 42.")
    assert visitor.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    visitor.page.screenshot(path=folder / "phone.png")
    context.close()
