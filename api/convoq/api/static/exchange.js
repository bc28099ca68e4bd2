"use strict";
// One message and the reading of its answer, however often the connection breaks.

const GIVE_UP_MS = 60_000; // without a line, since the connection was lost
const SILENCE_MS = 35_000; // three keepalives missed: the line is dead though nobody said so
const LONGEST_PAUSE_MS = 5_000;

/** `again`: the same can be tried once more. */
class Failure extends Error {
  constructor(message, { again = false, code = "" } = {}) {
    super(message);
    this.again = again;
    this.code = code;
  }
}

class Exchange {
  /** `on.accepted()` once the execution is known, `on.line(line)` for each line once, `on.reconnecting()`. */
  constructor(webhookUrl, on, key = randomId()) {
    const url = new URL(webhookUrl, location.href);
    this.webhookUrl = url.href;
    this.base = url.href.slice(0, url.href.indexOf("/webhook/", url.origin.length));
    this.on = on;
    this.key = key; // sent again with a repeated message, so that it is not taken for a second one
    this.id = null;
    this.token = "";
    this.last = -1; // the highest `seq` seen
    this.controller = new AbortController();
  }

  async send(sessionId, chatInput) {
    let response;
    try {
      response = await fetch(this.webhookUrl, {
        method: "POST",
        headers: {
          "Content-Type": "application/json",
          Accept: "application/x-ndjson",
          "Idempotency-Key": this.key,
        },
        body: JSON.stringify({ action: "sendMessage", sessionId, chatInput }),
        signal: this.controller.signal,
      });
    } catch (error) {
      if (this.controller.signal.aborted) throw error;
      throw new Failure("The server can't be reached. Check your connection and try again.", { again: true });
    }
    if (!response.ok) throw await failureOf(response);
    this.id = response.headers.get("X-Execution-Id");
    this.token = response.headers.get("X-Stream-Token") || "";
    if (this.id) this.on.accepted();
    await this.follow(response);
  }

  /** Reads on after the last line seen (from the start, when none was). */
  async resume() {
    await this.follow(await this.reconnect());
  }

  /** Asks for the end of the execution; the stream then says how it ended. */
  async stop() {
    const response = await fetch(this.url("stop", {}), { method: "POST", signal: this.controller.signal });
    if (response.status === 404 || response.status === 405) this.controller.abort();
    else if (!response.ok) throw await failureOf(response);
  }

  /** Stops it without waiting to hear so. */
  abandon() {
    if (this.id) fetch(this.url("stop", {}), { method: "POST", keepalive: true }).catch(() => {}); // it ends by itself
    this.controller.abort();
  }

  url(what, query) {
    const parameters = new URLSearchParams({ ...query, token: this.token });
    return `${this.base}/executions/${encodeURIComponent(this.id)}/${what}?${parameters}`;
  }

  async follow(response) {
    while (response && !(await this.drain(response))) response = await this.reconnect();
  }

  /** True when the answer came to its end, false when the connection did. */
  async drain(response) {
    if (!response.headers.get("Content-Type")?.includes("ndjson")) {
      this.on.line({ type: "begin", metadata: {} });
      this.on.line({ type: "item", metadata: {}, content: plainReply(await response.text()) });
      return true;
    }
    let ended = false;
    try {
      for await (const line of readLines(response.body)) {
        this.lostAt = undefined;
        this.failed = 0;
        if (typeof line.seq === "number") {
          if (line.seq <= this.last) continue;
          this.last = line.seq;
        }
        ended = line.type === "end";
        this.on.line(line);
      }
    } catch (error) {
      if (this.controller.signal.aborted) throw error;
      return false;
    }
    return ended;
  }

  /** The rest of the stream, or null when nothing more is to come. */
  async reconnect() {
    if (!this.id) throw new Failure("The connection was lost before the answer was complete.", { again: true });
    this.on.reconnecting();
    this.lostAt ??= performance.now();
    for (;;) {
      const tries = (this.failed = (this.failed || 0) + 1);
      if (tries > 1) await pause(Math.min(LONGEST_PAUSE_MS, 200 * 2 ** tries), this.controller.signal);
      let response;
      try {
        response = await fetch(this.url("stream", { after: this.last }), {
          headers: { Accept: "application/x-ndjson" },
          cache: "no-store",
          signal: this.controller.signal,
        });
      } catch (error) {
        if (this.controller.signal.aborted) throw error;
      }
      if (response?.status === 204) return null;
      if (response?.ok) return response;
      if (response && response.status < 500 && response.status !== 429) throw await failureOf(response);
      if (performance.now() - this.lostAt > GIVE_UP_MS) {
        this.lostAt = undefined;
        throw new Failure("The connection was lost. The answer may still be under way.", { again: true });
      }
    }
  }
}

/** The objects of an NDJSON body, each as soon as its line is whole. Throws when nothing is heard for too long. */
async function* readLines(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let silent = false;
  try {
    for (;;) {
      const timer = setTimeout(() => {
        silent = true;
        reader.cancel();
      }, SILENCE_MS);
      const { done, value } = await reader.read().finally(() => clearTimeout(timer));
      if (silent) throw new Error("silence");
      if (done) return;
      const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = lines.pop();
      for (const line of lines) if (line.trim()) yield JSON.parse(line);
    }
  } finally {
    reader.cancel().catch(() => {}); // an abandoned or broken body: nobody is left to tell
  }
}

async function failureOf(response) {
  const { status } = response;
  const again = status >= 500 || status === 429 || status === 408;
  let message = `The server answered ${status}${response.statusText ? ` (${response.statusText})` : ""}.`;
  let code = "";
  try {
    const body = await response.json();
    if (typeof body.message === "string" && body.message) message = body.message;
    code = body.code || "";
  } catch {
    // not one of our errors, a proxy's page perhaps: its status has to do
  }
  return new Failure(message, { again, code });
}

/** What there is to show of a reply that is not a stream. */
function plainReply(body) {
  try {
    const reply = JSON.parse(body);
    const text = reply?.output ?? reply?.text ?? reply?.message ?? reply;
    return typeof text === "string" ? text : `\`\`\`json\n${JSON.stringify(text, null, 2)}\n\`\`\``;
  } catch {
    return body;
  }
}

/** Waits, but no longer than until the browser is back on line. */
function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const finish = () => {
      clearTimeout(timer);
      removeEventListener("online", finish);
      signal.removeEventListener("abort", finish);
      if (signal.aborted) reject(signal.reason);
      else resolve();
    };
    const timer = setTimeout(finish, ms);
    addEventListener("online", finish);
    signal.addEventListener("abort", finish);
  });
}
