"use strict";

class Chat {
  constructor(config) {
    this.config = config;
    this.memory = new Memory(config.webhookUrl);
    this.active = new Set(); // {exchange, answer, text} under way, oldest first
    this.greeting = document.getElementById("greeting");
    this.history = document.getElementById("history");
    this.turns = document.getElementById("turns");
    this.composer = new Composer(config.maxChars, { send: (text) => this.send(text), stop: () => this.stop() });
    this.follow = new Follow(
      document.getElementById("scroller"),
      document.getElementById("log"),
      document.getElementById("latest"),
    );
    document.getElementById("new").addEventListener("click", () => this.startAnew());
    document.body.toggleAttribute("data-loading", config.loadPrevious);
    for (const text of config.initialMessages) this.greeting.append(Answer.of(text).root);
  }

  async open() {
    const pending = this.memory.pending();
    const previous = this.config.loadPrevious ? await this.previousTurns() : [];
    // A turn that is being read on may have reached the memory too: its stream, which has more, then stands for it.
    const held = pending.length && previous.findLast((turn) => turn.human)?.text === pending.at(-1).text;
    const last = held ? previous.splice(previous.findLastIndex((turn) => turn.human)) : [];
    this.history.append(...previous.map(shown));
    document.body.removeAttribute("data-loading");
    this.mark();
    const runs = pending.map((entry) => this.readOn(entry));
    if (!held) return;
    const { answer } = await runs.at(-1);
    const remembered = last.filter((turn) => !turn.human).map((turn) => turn.text);
    if (remembered.length && answer.text.endsWith(remembered.at(-1))) return;
    this.history.append(...last.map(shown)); // the same words, said before
  }

  /** `[{human, text}]`, or nothing with a word about it: the chat itself can go on without. */
  async previousTurns() {
    try {
      const response = await fetch(this.config.webhookUrl, {
        method: "POST",
        headers: { "Content-Type": "application/json", Accept: "application/json" },
        body: JSON.stringify({ action: "loadPreviousSession", sessionId: this.memory.sessionId }),
      });
      if (!response.ok) throw await failureOf(response);
      return turnsOf((await response.json()).data);
    } catch (error) {
      const reason = error instanceof Failure ? ` ${error.message}` : "";
      this.history.append(element("p", "aside", `Earlier messages could not be loaded.${reason}`));
      return [];
    }
  }

  send(text) {
    const at = Date.now();
    const answer = new Answer();
    this.turns.append(userTurn(text, at), answer.root);
    this.mark();
    this.follow.toEnd();
    this.run({ text, at, answer });
  }

  readOn({ id, token, text, at }) {
    const answer = new Answer();
    this.turns.append(userTurn(text, at), answer.root);
    this.mark();
    return this.run({ text, at, answer, id, token });
  }

  /** From the request, or with `id` from a stream that is already under way, to the answer's end. Never throws. */
  async run(turn) {
    const { text, at, answer } = turn;
    const on = {
      accepted: () => this.accepted(turn),
      line: (line) => answer.line(line),
      reconnecting: () => answer.note("Connection lost, reconnecting"),
    };
    const exchange = new Exchange(this.config.webhookUrl, on, turn.key);
    Object.assign(turn, { exchange });
    if (turn.id) Object.assign(exchange, { id: turn.id, token: turn.token });
    this.active.add(turn);
    answer.reset();
    answer.wait();
    this.showState();
    try {
      await (turn.id ? exchange.resume() : exchange.send(this.memory.sessionId, text));
      if (answer.failed) answer.offer(() => this.again({ text, at: Date.now(), answer }));
      else if (!answer.text && !answer.stopped) answer.fail("The answer was empty.");
    } catch (error) {
      if (exchange.controller.signal.aborted) answer.stop();
      else this.explain(turn, error);
    }
    answer.finish(Date.now());
    this.active.delete(turn);
    if (exchange.id && !turn.lost && !turn.joined) this.memory.forget(exchange.id);
    this.showState();
    return turn;
  }

  accepted(turn) {
    const { exchange, text, at } = turn;
    for (const other of this.active) {
      // messages joined into one turn have one answer: it stands under the last of them
      if (other !== turn && other.exchange.id === exchange.id) {
        other.joined = true;
        other.exchange.controller.abort();
        other.answer.root.remove();
      }
    }
    this.memory.keep({ id: exchange.id, token: exchange.token, text, at });
    this.showState();
  }

  explain(turn, error) {
    const { exchange, answer, text, at } = turn;
    if (!(error instanceof Failure)) {
      answer.fail(`The page failed to show this answer: ${error.message}`);
      throw error;
    }
    turn.lost = error.again && exchange.id !== null; // it may be under way still: kept, for a reload to find
    const kept = turn.lost ? { id: exchange.id, token: exchange.token } : { key: exchange.key };
    answer.fail(error.message, error.again ? () => this.again({ text, at, answer, ...kept }) : undefined);
  }

  again(turn) {
    this.run(turn);
    this.composer.input.focus();
  }

  async stop() {
    const running = [...this.active].filter(({ exchange }) => exchange.id);
    if (!running.length || running.every((turn) => turn.stopping)) return;
    for (const turn of running) turn.stopping = true;
    this.showState();
    this.composer.input.focus();
    await Promise.all(running.map((turn) => this.stopOne(turn)));
  }

  async stopOne(turn) {
    try {
      await turn.exchange.stop();
    } catch (error) {
      if (turn.exchange.controller.signal.aborted) return; // it ended meanwhile
      turn.stopping = false;
      announce(`It could not be stopped. ${error.message}`);
      this.showState();
    }
  }

  startAnew() {
    for (const turn of this.active) {
      turn.exchange.abandon();
    }
    this.memory.newSession();
    this.history.replaceChildren();
    this.turns.replaceChildren();
    this.mark();
    this.composer.input.focus();
    announce("New conversation");
  }

  showState() {
    const states = [...this.active];
    const running = states.filter(({ exchange }) => exchange.id);
    if (!states.length) this.composer.show("idle");
    else if (!running.length) this.composer.show("sent");
    else this.composer.show(running.every((turn) => turn.stopping) ? "stopping" : "running");
  }

  mark() {
    document.body.toggleAttribute("data-empty", !this.turns.childElementCount && !this.history.childElementCount);
  }
}

function shown({ human, text }) {
  return human ? userTurn(text) : Answer.of(text).root;
}

function turnsOf(messages) {
  const turns = [];
  for (const { id = [], kwargs = {} } of Array.isArray(messages) ? messages : []) {
    const human = id.includes("HumanMessage");
    if (!human && !id.includes("AIMessage")) continue;
    const parts = Array.isArray(kwargs.content) ? kwargs.content : [kwargs.content];
    const text = parts.map((part) => (typeof part === "string" ? part : (part?.text ?? ""))).join("");
    if (text) turns.push({ human, text });
  }
  return turns;
}

function fitViewport() {
  // iOS lays its keyboard over the page and shrinks only the visual viewport
  const fit = () => document.documentElement.style.setProperty("--visible", `${visualViewport.height}px`);
  visualViewport?.addEventListener("resize", fit);
}

fitViewport();
const chat = new Chat(JSON.parse(document.getElementById("config").textContent));
if (matchMedia("(pointer: fine)").matches && window.top === window) chat.composer.input.focus();
chat.open();
