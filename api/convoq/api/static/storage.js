"use strict";
// What the page remembers: which session this is (the browser), which answers were under way (the tab). A browser may
// refuse storage altogether, in an embedded page above all: then things last as long as the page.

class Memory {
  constructor(webhookUrl) {
    const path = new URL(webhookUrl, location.href).pathname;
    this.sessionKey = `convoq/session/${path}`;
    this.pendingKey = `convoq/pending/${path}`;
    this.sessionId = attempt(() => localStorage.getItem(this.sessionKey)) || this.newSession();
  }

  newSession() {
    this.sessionId = randomId();
    attempt(() => localStorage.setItem(this.sessionKey, this.sessionId));
    attempt(() => sessionStorage.removeItem(this.pendingKey));
    return this.sessionId;
  }

  /** Answers that this tab was reading, oldest first: `{id, token, text, sessionId, at}`. */
  pending() {
    const kept = attempt(() => JSON.parse(sessionStorage.getItem(this.pendingKey)));
    return Array.isArray(kept) ? kept.filter((each) => each.sessionId === this.sessionId) : [];
  }

  keep(entry) {
    this.write([...this.pending().filter((each) => each.id !== entry.id), { ...entry, sessionId: this.sessionId }]);
  }

  forget(id) {
    this.write(this.pending().filter((each) => each.id !== id));
  }

  write(entries) {
    attempt(() => sessionStorage.setItem(this.pendingKey, JSON.stringify(entries)));
  }
}

function attempt(action) {
  try {
    return action();
  } catch {
    return null; // storage refused, full, or not ours to read
  }
}

function randomId() {
  if (crypto.randomUUID) return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16)); // plain http on a network has no randomUUID
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
