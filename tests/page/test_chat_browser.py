"""The page in a real Chromium, against a server that answers by script."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.page.scripted import Cut, Gate, Join, Plain, Server, Step, line, serve, words

pytestmark = pytest.mark.browser

CANNOT_HELP = re.compile(r"Failed to load resource")  # Chromium's own line about an HTTP error or a broken connection


@dataclass
class Tab:
    page: Page
    server: Server
    faults: list[str]
    asked: list[str]

    @property
    def url(self) -> str:
        return self.server.base + self.server.config.webhook_url

    @property
    def input(self) -> Locator:
        return self.page.get_by_role("textbox", name="Message")

    @property
    def answers(self) -> Locator:
        return self.page.locator("#turns .chat-message-from-bot")

    @property
    def answer(self) -> Locator:
        return self.answers.last.locator(".chat-message-markdown")

    def say(self, text: str) -> None:
        self.input.fill(text)
        self.input.press("Enter")

    def until(self, condition: str) -> None:
        """Until the JavaScript holds. (`wait_for_function` needs `eval`, which the page's policy forbids.)"""
        deadline = time.monotonic() + 10
        while not self.page.evaluate(condition):
            assert time.monotonic() < deadline, f"never came true: {condition}"
            self.page.wait_for_timeout(20)

    def settled(self) -> None:
        """Until nothing is under way any more."""
        expect(self.page.locator('[aria-busy="true"]')).to_have_count(0)


@contextmanager
def opened(browser: Browser, server: Server, **context: Any) -> Iterator[Tab]:
    """A page at the chat; fails at the end if the page logged an error, broke its policy or loaded from elsewhere."""
    made = browser.new_context(**context)
    made.set_default_timeout(10_000)
    page = made.new_page()
    tab = Tab(page, server, [], [])
    page.on(
        "console", lambda message: tab.faults.append(message.text) if message.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: tab.faults.append(str(error)))
    page.on("request", lambda request: tab.asked.append(request.url))
    page.goto(tab.url)
    try:
        yield tab
    finally:
        made.close()
    assert [fault for fault in tab.faults if not CANNOT_HELP.match(fault)] == []
    assert [url for url in tab.asked if not url.startswith((server.base + "/", "data:"))] == []


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as server:
        yield server


@pytest.fixture
def tab(browser: Browser, server: Server) -> Iterator[Tab]:
    with opened(browser, server) as tab:
        yield tab


def test_a_conversation(tab: Tab, server: Server) -> None:
    server.answers = {"hello": words("Ahoy, ", "**sail", "or**."), "and?\nmore": words("Zwei: äöü 🚢")}
    expect(tab.page.locator("#greeting .chat-message")).to_have_text(
        [re.compile("Good morning."), re.compile("What can")]
    )
    expect(tab.page.get_by_role("heading", level=1)).to_have_text("Harbour desk")
    expect(tab.page).to_have_title("Harbour desk")
    expect(tab.input).to_be_focused()
    expect(tab.page.get_by_role("button", name="Send message")).to_be_disabled()
    tab.say("hello")
    expect(tab.answer).to_have_text("Ahoy, sailor.")
    expect(tab.answer.locator("strong")).to_have_text("sailor")
    tab.input.press_sequentially("and?")
    tab.input.press("Shift+Enter")
    tab.input.press_sequentially("more")
    tab.page.get_by_role("button", name="Send message").click()
    expect(tab.answer).to_have_text("Zwei: äöü 🚢")
    tab.settled()
    expect(tab.input).to_be_focused()
    first, second = server.requests
    assert (first["action"], first["chatInput"], first["accept"]) == ("sendMessage", "hello", "application/x-ndjson")
    assert second["chatInput"] == "and?\nmore"
    assert first["sessionId"] == second["sessionId"] and re.fullmatch(r"[0-9a-f-]{36}", first["sessionId"])
    assert first["key"] and first["key"] != second["key"]


def test_the_session_lasts_until_a_new_conversation(tab: Tab, server: Server) -> None:
    server.answers = {"hello": words("Ahoy")}
    key = "convoq/session/base/webhook/demo/chat".replace("session/base", "session//base")
    tab.say("hello")
    expect(tab.answer).to_have_text("Ahoy")
    kept = tab.page.evaluate("key => localStorage.getItem(key)", key)
    tab.page.reload()
    tab.say("hello")
    expect(tab.answer).to_have_text("Ahoy")
    tab.settled()
    tab.page.get_by_role("button", name="New conversation").click()
    expect(tab.answers).to_have_count(0)
    expect(tab.input).to_be_focused()
    tab.say("hello")
    expect(tab.answer).to_have_text("Ahoy")
    sessions = [request["sessionId"] for request in server.requests]
    assert sessions[0] == sessions[1] == kept != sessions[2]


def test_text_shows_while_it_comes_and_is_announced_once_whole(tab: Tab, server: Server) -> None:
    server.answers = {
        "hello": [Gate("a"), line("begin"), line("item", "one "), Gate("b"), line("item", "two"), line("end")]
    }
    tab.say("hello")
    typing = tab.answers.last.locator(".chat-typing")
    expect(typing).to_be_visible()
    expect(tab.answer).to_be_empty()
    server.open("a")
    expect(tab.answer).to_have_text("one")
    expect(typing).to_be_hidden()
    expect(tab.answers.last).to_have_attribute("aria-live", "off")
    assert "one" not in tab.page.get_by_role("status").inner_text()
    server.open("b")
    expect(tab.page.get_by_role("status")).to_have_text("Assistant: one two")
    expect(tab.answer).to_have_text("one two")
    expect(tab.page.get_by_role("log", name="Conversation")).to_have_attribute("aria-live", "polite")


def test_each_model_call_is_a_segment_and_empty_ones_show_nothing(tab: Tab, server: Server) -> None:
    one, two = line("begin"), line("begin", run=1)
    server.answers = {
        "go": [
            *words("Let me look."),
            *words(""),
            *[one, two, line("item", "A"), line("item", "X", run=1), line("item", "B"), line("item", "Y", run=1)],
            *[line("end"), line("end", run=1)],
        ]
    }
    tab.say("go")
    tab.settled()
    expect(tab.answer.locator(".segment")).to_have_text(["Let me look.", "AB", "XY"])


def test_waiting_and_trying_again_elsewhere_are_told(tab: Tab, server: Server) -> None:
    server.answers = {
        "hello": [line("queued", position=2), Gate("a"), line("retry", attempt=2), Gate("b"), *words("Ahoy")]
    }
    tab.say("hello")
    note = tab.answers.last.locator(".chat-typing .note")
    expect(note).to_have_text("Waiting behind 2 messages")
    server.open("a")
    expect(note).to_have_text("Reconnecting to a worker")
    server.open("b")
    expect(tab.answer).to_have_text("Ahoy")
    expect(note).to_be_hidden()


def test_a_second_message_can_be_sent_while_the_first_is_answered(tab: Tab, server: Server) -> None:
    server.answers = {"one": [Gate("one"), *words("first")], "two": [Gate("two"), *words("second")]}
    tab.say("one")
    tab.say("two")
    server.open("two")
    expect(tab.answers.nth(1)).to_contain_text("second")
    expect(tab.page.get_by_role("button", name="Stop answering")).to_be_visible()
    server.open("one")
    expect(tab.answers.nth(0)).to_contain_text("first")
    tab.settled()
    expect(tab.page.get_by_role("button", name="Stop answering")).to_be_hidden()


def test_messages_joined_into_one_turn_have_one_answer(tab: Tab, server: Server) -> None:
    server.answers = {"one": [line("queued", position=1), Gate("go"), *words("both")], "two": Join(0)}
    tab.say("one")
    expect(tab.answers.last).to_contain_text("Waiting")
    tab.say("two")
    expect(tab.answers).to_have_count(1)
    server.open("go")
    expect(tab.page.locator("#turns .chat-message-markdown")).to_have_text(["one", "two", "both"])
    tab.settled()


def test_an_error_line_is_shown_and_can_be_tried_again(tab: Tab, server: Server) -> None:
    failed = [
        line("begin"),
        line("item", "I was"),
        line("error", "model: 429 <b>slow</b>", code="model_failed"),
        line("end"),
    ]
    server.answers = {"hello": failed}
    tab.say("hello")
    problem = tab.answers.last.locator(".problem")
    expect(problem.locator("p")).to_have_text("model: 429 <b>slow</b>")
    expect(tab.answer).to_have_text("I was")
    server.answers = {"hello": words("Ahoy")}
    problem.get_by_role("button", name="Try again").click()
    expect(tab.answer).to_have_text("Ahoy")
    expect(problem).to_be_hidden()
    expect(tab.answers).to_have_count(1)


def test_http_errors_show_the_server_s_message(tab: Tab, server: Server) -> None:
    server.answers = {
        "hello": Plain(404, {"code": "inactive_workflow", "message": "workflow 'Desk' is inactive"}),
        "full": Plain(503, {"code": "overloaded", "message": "too many wait"}),
    }
    tab.say("hello")
    expect(tab.answers.last.locator(".problem p")).to_have_text("workflow 'Desk' is inactive")
    expect(tab.answers.last.get_by_role("button", name="Try again")).to_be_hidden()
    tab.say("full")
    expect(tab.answers.last.locator(".problem p")).to_have_text("too many wait")
    server.answers = {"full": words("Ahoy")}
    tab.answers.last.get_by_role("button", name="Try again").click()
    expect(tab.answer).to_have_text("Ahoy")
    assert server.requests[1]["key"] == server.requests[2]["key"], "the same message again, by its key"


def test_an_unreachable_server_is_told_and_can_be_tried_again(tab: Tab, server: Server) -> None:
    server.answers = {"hello": words("Ahoy")}
    tab.page.context.set_offline(True)
    tab.say("hello")
    expect(tab.answers.last.locator(".problem p")).to_contain_text("can't be reached")
    tab.page.context.set_offline(False)
    tab.answers.last.get_by_role("button", name="Try again").click()
    expect(tab.answer).to_have_text("Ahoy")


def test_a_reply_that_is_no_stream_is_shown_too(tab: Tab, server: Server) -> None:
    server.answers = {"text": Plain(200, {"output": "from **n8n**"}), "data": Plain(200, {"count": 3})}
    tab.say("text")
    expect(tab.answer).to_have_text("from n8n")
    tab.say("data")
    expect(tab.answer.locator("code")).to_contain_text('"count": 3')


def test_a_cut_connection_is_resumed_without_gap_or_repeat(tab: Tab, server: Server) -> None:
    items: list[Step] = [line("item", f"{number} ") for number in range(40)]
    first, second, third = items[:2], items[2:20], items[20:]
    server.answers = {
        "count": [line("begin"), *first, Gate("one"), Cut(), *second, Gate("two"), Cut(), *third, line("end")]
    }
    server.failing = 1
    server.overlap = 2
    tab.say("count")
    expect(tab.answer).to_have_text("0 1")
    server.open("one")
    expect(tab.answer).to_have_text(" ".join(map(str, range(20))))
    server.open("two")
    expect(tab.answer).to_have_text(" ".join(map(str, range(40))))
    tab.settled()
    assert server.resumed == [2, 2, 20]
    assert len(server.requests) == 1, "the message was sent once"


def test_a_stream_that_is_gone_says_why(tab: Tab, server: Server) -> None:
    server.gone = "the stream is not kept any more"
    server.answers = {"hello": [line("begin"), line("item", "half"), Gate("cut"), Cut(), Gate("never")]}
    tab.say("hello")
    expect(tab.answer).to_have_text("half")
    server.open("cut")
    expect(tab.answers.last.locator(".problem p")).to_have_text("the stream is not kept any more")
    expect(tab.answer).to_have_text("half")
    tab.page.reload()
    expect(tab.answers).to_have_count(0)


def test_a_reload_in_mid_answer_goes_on_reading(tab: Tab, server: Server) -> None:
    server.answers = {"hello": [line("begin"), line("item", "before "), Gate("go"), line("item", "after"), line("end")]}
    tab.say("hello")
    expect(tab.answer).to_have_text("before")
    tab.page.reload()
    expect(tab.page.locator("#turns .chat-message-from-user")).to_contain_text("hello")
    expect(tab.answer).to_have_text("before")
    server.open("go")
    expect(tab.answer).to_have_text("before after")
    tab.settled()
    assert server.resumed == [-1]
    tab.page.reload()
    expect(tab.input).to_be_visible()
    expect(tab.answers).to_have_count(0)


def human(text: str) -> dict[str, Any]:
    return {"id": ["langchain_core", "messages", "HumanMessage"], "kwargs": {"content": text}}


def assistant(text: object) -> dict[str, Any]:
    return {"id": ["langchain_core", "messages", "AIMessage"], "kwargs": {"content": text}}


def test_earlier_turns_are_shown(browser: Browser) -> None:
    tool = {"id": ["langchain_core", "messages", "ToolMessage"], "kwargs": {"content": "hidden"}}
    with serve(load_previous=True) as server:
        server.previous = [
            human("hi *there*"),
            assistant([{"text": "**Ahoy**"}]),
            tool,
            human("hi"),
            assistant("again"),
        ]
        with opened(browser, server) as tab:
            turns = tab.page.locator("#history .chat-message-markdown")
            expect(turns).to_have_text(["hi *there*", "Ahoy", "hi", "again"])
            assert server.requests == [
                {
                    "action": "loadPreviousSession",
                    "sessionId": server.requests[0]["sessionId"],
                    "key": None,
                    "accept": "application/json",
                }
            ]


def test_a_turn_read_on_and_remembered_is_shown_once(browser: Browser) -> None:
    with serve(load_previous=True) as server, opened(browser, server) as tab:
        server.answers = {
            "hello": [line("begin"), line("item", "half "), Gate("go"), line("item", "whole"), line("end")]
        }
        tab.say("hello")
        expect(tab.answer).to_have_text("half")
        tab.page.goto("about:blank")
        server.open("go")
        server.previous = [human("first"), assistant("one"), human("hello"), assistant("half whole")]
        tab.page.goto(tab.url)
        expect(tab.page.locator(".chat-messages-list [id]:not(#greeting) .chat-message-markdown")).to_have_text(
            ["first", "one", "hello", "half whole"]
        )
        tab.asked = [url for url in tab.asked if url != "about:blank"]


def test_stop(tab: Tab, server: Server) -> None:
    server.answers = {"hello": [line("begin"), line("item", "half"), Gate("never")]}
    stop = tab.page.get_by_role("button", name="Stop answering")
    expect(stop).to_be_hidden()
    tab.say("hello")
    expect(tab.answer).to_have_text("half")
    stop.click()
    tab.settled()
    expect(tab.answers.last).to_contain_text("Stopped")
    expect(tab.answers.last.locator(".problem")).to_be_hidden()
    expect(stop).to_be_hidden()
    expect(tab.input).to_be_focused()
    tab.say("hello")
    expect(tab.answer).to_have_text("half")
    tab.input.press("Escape")
    tab.settled()
    assert all(execution.stopped for execution in server.executions.values())


@pytest.mark.parametrize(
    ("reason", "shown"),
    [("length", "Cut off at the model’s limit"), ("content_filter", "Cut off by the provider’s content filter")],
)
def test_an_answer_that_is_not_whole_says_so(tab: Tab, server: Server, reason: str, shown: str) -> None:
    end = line("end")
    end["metadata"]["finishReason"] = reason
    server.answers = {
        "hello": [line("begin"), line("item", "half"), end],
        "looked up": [line("begin"), line("item", "wait"), end, *words("whole", run=1)],
    }
    tab.say("hello")
    tab.settled()
    expect(tab.answers.last.locator(".cut")).to_have_text(shown)
    tab.say("looked up")
    tab.settled()
    expect(tab.answers.last.locator(".cut")).to_be_hidden()


def test_stop_where_the_server_cannot_ends_the_reading(tab: Tab, server: Server) -> None:
    server.stoppable = False
    server.answers = {"hello": [line("begin"), line("item", "half"), Gate("never")]}
    tab.say("hello")
    expect(tab.answer).to_have_text("half")
    tab.input.press("Escape")
    tab.settled()
    expect(tab.answers.last).to_contain_text("Stopped")


def test_a_new_conversation_stops_what_runs(tab: Tab, server: Server) -> None:
    server.answers = {"hello": [line("begin"), line("item", "half"), Gate("never")], "next": words("fresh")}
    tab.say("hello")
    expect(tab.answer).to_have_text("half")
    with tab.page.expect_response("**/stop?*"):
        tab.page.get_by_role("button", name="New conversation").click()
    tab.say("next")
    expect(tab.answer).to_have_text("fresh")
    expect(tab.answers).to_have_count(1)


HOSTILE = """<img src=x onerror="window.hacked=1"> <script>window.hacked=1</script>

[a](javascript:window.hacked=1) [b](data:text/html,x) [c](  JaVaScRiPt:alert(1)) [d](vbscript:x) [e](/relative)
<svg onload=alert(1)> ![i](https://example.org/i.png) ![j](javascript:x) [k](https://example.org/?q="><b>) <https://example.org/auto>

<iframe src="https://example.org"></iframe>
"""


def test_hostile_markdown_stays_text(tab: Tab, server: Server) -> None:
    server.answers = {"hello": words(*HOSTILE)}
    tab.say("hello")
    tab.settled()
    expect(tab.answer).to_contain_text('<img src=x onerror="window.hacked=1"> <script>window.hacked=1</script>')
    expect(tab.answer).to_contain_text('<iframe src="https://example.org"></iframe>')
    expect(tab.answer.locator("img, script, svg, iframe, b")).to_have_count(0)
    links = tab.answer.locator("a").evaluate_all(
        "all => all.map(a => [a.textContent, a.getAttribute('href'), a.rel, a.target])"
    )
    rest = ["noopener noreferrer nofollow", "_blank"]
    assert links == [
        ["i", "https://example.org/i.png", *rest],
        ["k", "https://example.org/?q=%22%3E%3Cb%3E", *rest],
        ["https://example.org/auto", "https://example.org/auto", *rest],
        ["https://example.org", "https://example.org", *rest],
    ]
    assert tab.page.evaluate("window.hacked") is None


MARKDOWN = """# Title
Text with **bold**, *italic*, ~~gone~~, `a < b && c` and
a line break, &copy; [link](https://example.org/a_b_c "t").

- one
  1. deeper
  2. still

     with a paragraph
- two

> quoted
> - list

| a | b |
|:--|--:|
| `x|y` | 2 |

```py
if a < b:

    pass
```

    indented

***
[ref][1] and https://example.org/x_y_z but not main.py

مرحبا بالعالم

[1]: https://example.org/ref
"""


def test_markdown_grows_to_what_it_would_be_at_once(tab: Tab, server: Server) -> None:
    """Whatever the pieces and whenever they are painted, the DOM ends as if the text had come whole."""
    result = tab.page.evaluate(
        """text => {
          const shape = (root) => root.innerHTML;
          const whole = document.createElement('div');
          const once = new GrowingMarkdown(whole); once.text = text; once.render(true);
          const faults = [];
          for (const size of [1, 2, 3, 7, 19, 64]) {
            const grown = document.createElement('div');
            const growing = new GrowingMarkdown(grown);
            for (let at = 0; at < text.length; at += size) {
              growing.text += text.slice(at, at + size);
              growing.render(false);
              if (grown.textContent.includes('**')) faults.push(`${size}: ${grown.textContent.slice(-40)}`);
            }
            growing.finish();
            if (shape(grown) !== shape(whole)) faults.push(`${size}: ${shape(grown)}`);
          }
          return [faults, shape(whole)];
        }""",
        MARKDOWN,
    )
    faults, html = result
    assert faults == []
    for expected in (
        '<h2 class="h1" dir="auto">Title</h2>',
        "<strong>bold</strong>",
        "<em>italic</em>",
        "<s>gone</s>",
        "<code>a &lt; b &amp;&amp; c</code> and<br>a line break, ©",
        'href="https://example.org/a_b_c"',
        '<ul><li dir="auto">one<ol><li dir="auto"><p dir="auto">deeper</p></li>',
        '<blockquote><p dir="auto">quoted</p><ul><li dir="auto">list</li></ul></blockquote>',
        '<td dir="auto" style="text-align: right;">',
        "<span>py</span>",
        "if a &lt; b:\n\n    pass\n</code>",
        "indented\n</code>",
        "<hr>",
        'href="https://example.org/ref"',
        'href="https://example.org/x_y_z"',
        "but not main.py",
        '<p dir="auto">مرحبا بالعالم</p>',
    ):
        assert expected in html, expected


@pytest.mark.parametrize(
    ("opening", "block", "times", "share"),
    [
        ("", "A paragraph with **bold** and `code`.\n\n", 5, 0.4),
        ("", "- an item of one long list\n", 1000, 0.4),
        ("```\n", "a line of one long block\n", 1000, 0.4),
    ],
    ids=["paragraphs", "list", "code"],
)
def test_a_long_answer_costs_in_proportion(tab: Tab, opening: str, block: str, times: int, share: float) -> None:
    """By a clock of its own: 60 kB in 2,000 frames on a machine that parses 100 characters in a millisecond."""
    parsed, length, shown, busy = tab.page.evaluate(
        """([opening, block]) => {
          let now = 0, parsed = 0, frames = [];
          performance.now = () => now;
          window.requestAnimationFrame = (frame) => frames.push(frame);
          const parse = parser.parse;
          parser.parse = (text, env) => {
            parsed += text.length;
            now += text.length / 100;
            return parse.call(parser, text, env);
          };
          const growing = new GrowingMarkdown(document.createElement('div'));
          growing.append(opening);
          for (let frame = 0; frame < 2000; frame++) {
            growing.append(block);
            now += 16;
            for (const paint of frames.splice(0)) paint();
          }
          const busy = parsed / 100 / now;
          growing.finish();
          return [parsed, growing.text.length, growing.root.textContent.length, busy];
        }""",
        [opening, block],
    )
    assert shown > 0.75 * length
    assert parsed < times * length
    assert busy < share


def test_a_character_may_arrive_in_pieces(tab: Tab) -> None:
    lines = tab.page.evaluate(
        """async () => {
          const bytes = new TextEncoder().encode('{"content":"äöü 🚢"}\\n\\n{"content":"two"}\\n{"content":"cut o');
          const body = new ReadableStream({ start(controller) {
            for (const byte of bytes) controller.enqueue(new Uint8Array([byte]));
            controller.close();
          } });
          const seen = [];
          for await (const line of readLines(body)) seen.push(line.content);
          return seen;
        }"""
    )
    assert lines == ["äöü 🚢", "two"]


def test_the_view_follows_the_end_unless_the_reader_has_gone_up(tab: Tab, server: Server) -> None:
    page = [line("item", f"line {number}\n\n") for number in range(60)]
    server.answers = {"long": [line("begin"), *page, Gate("a"), *page, Gate("b"), *page, line("end")]}
    latest = tab.page.get_by_role("button", name="Jump to latest")
    below = "chat.follow.below"
    tab.say("long")
    expect(tab.answer.locator("p")).to_have_count(60)
    tab.until(f"{below} < 8")
    expect(latest).to_be_hidden()
    tab.page.mouse.move(400, 300)
    tab.page.mouse.wheel(0, -300)
    expect(latest).to_be_visible()
    top = tab.page.evaluate("chat.follow.scroller.scrollTop")
    server.open("a")
    expect(tab.answer.locator("p")).to_have_count(120)
    assert tab.page.evaluate("chat.follow.scroller.scrollTop") == top
    latest.click()
    tab.until(f"{below} < 8")
    expect(latest).to_be_hidden()
    server.open("b")
    expect(tab.answer.locator("p")).to_have_count(180)
    tab.until(f"{below} < 8")


def test_copying(browser: Browser, server: Server) -> None:
    server.answers = {"hello": words("**Ahoy**\n\n```js\nlet a = 1;\n```\n")}
    with opened(browser, server, permissions=["clipboard-read", "clipboard-write"]) as tab:
        tab.say("hello")
        tab.answers.last.get_by_role("button", name="Copy code").click()
        expect(tab.page.get_by_role("status")).to_have_text("Copied")
        assert tab.page.evaluate("navigator.clipboard.readText()") == "let a = 1;\n"
        tab.answers.last.get_by_role("button", name="Copy answer").click()
        tab.until("navigator.clipboard.readText().then(text => text.startsWith('**Ahoy**'))")


def test_empty_and_overlong_messages_are_not_sent(browser: Browser) -> None:
    with serve(max_chars=100) as server, opened(browser, server) as tab:
        server.answers = {"x" * 100: words("Ahoy")}
        send = tab.page.get_by_role("button", name="Send message")
        tab.say("  \n ")
        expect(send).to_be_disabled()
        tab.say("x" * 101)
        expect(send).to_be_disabled()
        expect(tab.page.locator("#hint")).to_have_text("Too long to send: 101 of 100 characters")
        expect(tab.answers).to_have_count(0)
        tab.say("x" * 100)
        expect(tab.answer).to_have_text("Ahoy")
        assert len(server.requests) == 1


def test_enter_that_ends_a_composition_does_not_send(tab: Tab, server: Server) -> None:
    tab.input.fill("にほん")
    tab.input.dispatch_event("keydown", {"key": "Enter", "isComposing": True, "bubbles": True})
    tab.input.dispatch_event("keydown", {"key": "Enter", "keyCode": 229, "bubbles": True})
    expect(tab.input).to_have_value("にほん")
    assert server.requests == []


def test_it_works_where_storage_is_refused(browser: Browser, server: Server) -> None:
    server.answers = {"hello": words("Ahoy")}
    with opened(browser, server) as tab:
        refuse = """for (const name of ['localStorage', 'sessionStorage']) Object.defineProperty(window, name, {
          get() { throw new DOMException('no', 'SecurityError'); }
        });"""
        tab.page.add_init_script(refuse + "delete Crypto.prototype.randomUUID;")
        tab.page.reload()
        tab.say("hello")
        expect(tab.answer).to_have_text("Ahoy")
        tab.say("hello")
        expect(tab.answers).to_have_count(2)
        tab.settled()
        assert server.requests[0]["sessionId"] == server.requests[1]["sessionId"]
        assert re.fullmatch(
            r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", server.requests[0]["sessionId"]
        )


def test_nothing_is_wider_than_a_small_phone(browser: Browser, server: Server) -> None:
    wide = "w" * 300
    text = f"{wide} https://example.org/{wide}\n\n```\n{wide}\n```\n\n| {wide} | b |\n|--|--|\n| 1 | 2 |\n\n1. {wide}\n"
    server.answers = {wide: words(text)}
    with opened(browser, server, viewport={"width": 360, "height": 500}, has_touch=True, is_mobile=True) as tab:
        tab.say(wide)
        tab.settled()
        assert tab.page.evaluate("document.documentElement.scrollWidth") == 360
        assert tab.page.evaluate("(s => s.scrollWidth - s.clientWidth)(document.getElementById('scroller'))") == 0
        box = tab.input.bounding_box()
        assert box is not None and box["y"] + box["height"] <= 500


def test_it_can_be_embedded_and_themed(browser: Browser) -> None:
    css = ":root { --chat--message--user--background: rgb(1, 2, 3); } .chat-header { color: rgb(4, 5, 6) }"
    with serve(custom_css=css) as server, opened(browser, server, color_scheme="dark") as tab:
        server.answers = {"hello": words("Ahoy")}
        tab.page.goto(f"{server.base}/host")
        frame = tab.page.frame_locator("iframe")
        frame.get_by_role("textbox", name="Message").fill("hello")
        frame.get_by_role("textbox", name="Message").press("Enter")
        bubble = frame.locator(".chat-message-from-user .chat-message-markdown")
        expect(bubble).to_have_css("background-color", "rgb(1, 2, 3)")
        expect(frame.locator(".chat-header")).to_have_css("color", "rgb(4, 5, 6)")
        expect(frame.locator("#turns .chat-message-from-bot")).to_contain_text("Ahoy")
