"use strict";
// What is shown of a conversation: turns, answers that grow, and where the reader is in it.

const COPIED_MS = 1600;

const CUT = {
  length: "Cut off at the model’s limit",
  content_filter: "Cut off by the provider’s content filter",
};

function clone(id) {
  return document.getElementById(id).content.firstElementChild.cloneNode(true);
}

function wireCopy(button, text) {
  let timer = 0;
  button.addEventListener("click", async () => {
    const done = await copyText(text());
    button.classList.toggle("copied", done);
    announce(done ? "Copied" : "Copying was refused by the browser");
    clearTimeout(timer);
    timer = setTimeout(() => button.classList.remove("copied"), COPIED_MS);
  });
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // plain http, or a frame that may not use the clipboard: the old way
    const area = element("textarea", "unseen");
    area.value = text;
    document.body.append(area);
    const focused = document.activeElement;
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    focused?.focus?.();
    return done;
  }
}

/** Says something to a screen reader, once. */
function announce(text) {
  const status = document.getElementById("status");
  status.textContent = "";
  clearTimeout(announce.timer);
  setTimeout(() => (status.textContent = text), 50);
  announce.timer = setTimeout(() => (status.textContent = ""), 10_000); // else it is read again when browsing the page
}

function stamp(time, ms) {
  const date = new Date(ms);
  const today = date.toDateString() === new Date().toDateString();
  time.dateTime = date.toISOString();
  time.title = date.toLocaleString();
  time.textContent = date.toLocaleString([], {
    ...(today ? {} : { day: "numeric", month: "short" }),
    hour: "numeric",
    minute: "2-digit",
  });
}

function userTurn(text, at) {
  const turn = clone("user-message");
  turn.querySelector(".chat-message-markdown").textContent = text;
  if (at) stamp(turn.querySelector("time"), at);
  return turn;
}

class Answer {
  constructor() {
    this.root = clone("bot-message");
    this.body = this.root.querySelector(".chat-message-markdown");
    this.typing = this.root.querySelector(".chat-typing");
    this.problem = this.root.querySelector(".problem");
    this.after = this.root.querySelector(".after");
    wireCopy(this.after.querySelector(".copy"), () => this.text);
    this.segments = []; // in the order in which they showed their first text
    this.open = new Map(); // "nodeId-runIndex-itemIndex" -> segment
  }

  get text() {
    return this.segments.map((segment) => segment.text).join("\n\n");
  }

  /** A finished answer, or a greeting. */
  static of(text) {
    const answer = new Answer();
    answer.begin("");
    answer.item("", text);
    answer.finish();
    return answer;
  }

  wait() {
    this.running = true;
    this.root.setAttribute("aria-live", "off"); // token by token it would be noise: the whole is announced at the end
    this.root.setAttribute("aria-busy", "true");
    this.problem.hidden = true;
    this.after.hidden = true;
    this.note("");
  }

  line(line) {
    const { nodeId = "", runIndex = 0, itemIndex = 0 } = line.metadata || {};
    const key = `${nodeId}-${runIndex}-${itemIndex}`;
    if (line.type === "begin") this.begin(key);
    else if (line.type === "item") this.item(key, line.content);
    else if (line.type === "end") this.end(key, line.metadata?.finishReason);
    else if (line.type === "error") this.error(line);
    else if (line.type === "queued") this.note(line.position > 0 ? waitingBehind(line.position) : "");
    else if (line.type === "retry") this.note("Reconnecting to a worker");
  }

  begin(key) {
    this.open.set(key, null); // the segment is made with its first text: a model may only call tools
  }

  item(key, content) {
    if (typeof content !== "string") content = JSON.stringify(content) ?? "";
    if (!content) return;
    let segment = this.open.get(key);
    if (!segment) {
      const root = element("div", "segment");
      this.body.append(root);
      segment = new GrowingMarkdown(root);
      this.segments.push(segment);
      this.open.set(key, segment);
    }
    segment.append(content);
    this.note("");
  }

  /** `reason` is there where the text is not whole. */
  end(key, reason) {
    if (!this.stopped) this.notWhole(CUT[reason]);
    this.open.get(key)?.finish();
    this.open.delete(key);
    this.note("");
  }

  /** A word beside the dots; they show while no text is on its way. */
  note(text) {
    this.typing.hidden = !this.running || ([...this.open.values()].some(Boolean) && !text);
    const note = this.typing.querySelector(".note");
    if (note.textContent === text) return;
    note.textContent = text;
    if (text) announce(text);
  }

  error({ content, code }) {
    if (code === "stopped") this.stop();
    else this.fail(content || "Something went wrong.");
  }

  /** `again` is what "Try again" does, where there is something to try. */
  fail(message, again) {
    this.failed = true;
    this.problem.hidden = false;
    this.problem.querySelector("p").textContent = message;
    if (again) this.offer(again);
    announce(message);
  }

  offer(again) {
    const button = this.problem.querySelector(".again");
    button.hidden = false;
    button.onclick = again;
  }

  stop() {
    this.stopped = true;
    this.notWhole("Stopped");
  }

  /** Why the answer ends where it does, where it is not its own end. */
  notWhole(why = "") {
    const note = this.root.querySelector(".cut");
    note.hidden = !why;
    note.textContent = why;
  }

  finish(at) {
    const wasRunning = this.running && this.root.isConnected;
    for (const segment of this.open.values()) segment?.finish();
    this.open.clear();
    this.running = false;
    this.note("");
    this.root.removeAttribute("aria-busy");
    this.root.removeAttribute("aria-live");
    if (at) stamp(this.after.querySelector("time"), at);
    this.after.hidden = !this.text && !this.stopped;
    this.after.querySelector(".copy").hidden = !this.text;
    if (wasRunning && this.stopped) announce("Stopped");
    else if (wasRunning && !this.failed) announce(`Assistant: ${this.body.innerText} ${this.root.querySelector(".cut").textContent}`);
  }

  /** Back to nothing, to be tried again. */
  reset() {
    this.body.replaceChildren();
    this.segments = [];
    this.open.clear();
    this.failed = this.stopped = false;
    this.notWhole();
    this.problem.hidden = true;
    this.problem.querySelector(".again").hidden = true;
  }
}

function waitingBehind(position) {
  return `Waiting behind ${position} ${position === 1 ? "message" : "messages"}`;
}

/** Keeps the end in sight for as long as the reader is there, and leaves them in peace when they have scrolled up. */
class Follow {
  constructor(scroller, content, button) {
    this.scroller = scroller;
    this.button = button;
    this.stuck = true;
    this.seen = 0;
    scroller.addEventListener("scroll", () => this.scrolled(), { passive: true });
    button.addEventListener("click", () => {
      this.toEnd(); // at once: a smooth way there would aim at an end that moves on meanwhile
      this.show();
    });
    const observer = new ResizeObserver(() => this.grown());
    observer.observe(scroller);
    observer.observe(content);
  }

  get below() {
    return this.scroller.scrollHeight - this.scroller.scrollTop - this.scroller.clientHeight;
  }

  scrolled() {
    const { scrollTop } = this.scroller;
    if (this.below < 8) this.stuck = true;
    else if (scrollTop < this.seen) this.stuck = false;
    this.seen = scrollTop;
    this.show();
  }

  grown() {
    if (this.stuck) this.toEnd();
    this.show();
  }

  toEnd() {
    this.stuck = true;
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.seen = this.scroller.scrollTop;
  }

  show() {
    this.button.hidden = this.stuck || this.below < 80;
  }
}
