"use strict";
// Where a message is written: grows with it, says when it is too long, sends and stops.

class Composer {
  /** `on.send(text)`, `on.stop()`. */
  constructor(maxChars, on) {
    this.maxChars = maxChars;
    this.on = on;
    this.form = document.getElementById("composer");
    this.input = document.getElementById("input");
    this.sendButton = document.getElementById("send");
    this.stopButton = document.getElementById("stop");
    this.hint = document.getElementById("hint");
    this.keys = this.hint.firstElementChild;
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    this.form.addEventListener("click", (event) => {
      if (event.target === this.form) this.input.focus();
    });
    this.input.addEventListener("input", () => this.update());
    this.input.addEventListener("keydown", (event) => {
      // 229: Safari's Enter that ends a composition comes after it, without isComposing
      if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
      event.preventDefault();
      this.submit();
    });
    this.stopButton.addEventListener("click", () => this.on.stop());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !this.stopButton.hidden) this.on.stop();
    });
    this.update();
  }

  get tooLong() {
    return this.input.value.length > this.maxChars;
  }

  submit() {
    const text = this.input.value.trim();
    if (!text || this.tooLong) return;
    this.input.value = "";
    this.update();
    this.input.focus();
    this.on.send(text);
  }

  /** `state`: "idle", "sent" (nothing to stop yet), "running", "stopping". */
  show(state) {
    const focused = document.activeElement === this.stopButton;
    this.stopButton.hidden = state !== "running" && state !== "stopping";
    this.stopButton.setAttribute("aria-disabled", String(state === "stopping"));
    if (focused && this.stopButton.hidden) this.input.focus();
  }

  update() {
    const { input, maxChars } = this;
    input.style.height = "auto";
    input.style.height = `${input.scrollHeight}px`;
    this.sendButton.disabled = !input.value.trim() || this.tooLong;
    input.setAttribute("aria-invalid", String(this.tooLong));
    this.hint.classList.toggle("too-long", this.tooLong);
    if (input.value.length < maxChars * 0.9) this.hint.replaceChildren(this.keys);
    else {
      const count = `${input.value.length.toLocaleString()} of ${maxChars.toLocaleString()} characters`;
      this.hint.textContent = this.tooLong ? `Too long to send: ${count}` : count;
    }
  }
}
