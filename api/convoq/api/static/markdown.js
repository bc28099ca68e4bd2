"use strict";
// Markdown to DOM nodes. markdown-it parses; its tokens become elements here, text only ever by text nodes: no string
// is read as HTML anywhere (the page's policy forbids it too).

const SAFE_SCHEME = /^(https?|mailto):/i;
const ELEMENTS = new Set(
  "p blockquote ul ol li table thead tbody tr th td strong em s a h1 h2 h3 h4 h5 h6".split(" "),
);
const DIRECTED = new Set("p li th td h1 h2 h3 h4 h5 h6".split(" "));

const parser = globalThis.markdownit({ html: false, breaks: true, linkify: true });
parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false }); // `main.py` is a file, not a site in Paraguay
parser.validateLink = (url) => SAFE_SCHEME.test(url.trim());

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function anchor(href) {
  const link = element("a");
  if (SAFE_SCHEME.test(href)) {
    link.href = href;
    link.target = "_blank";
    link.rel = "noopener noreferrer nofollow";
  }
  return link;
}

function codeBlock(token) {
  const block = document.getElementById("code-block").content.firstElementChild.cloneNode(true);
  block.querySelector("figcaption > span").textContent = token.info.trim().split(/\s+/)[0];
  const code = block.querySelector("code");
  code.textContent = token.content;
  wireCopy(block.querySelector(".copy"), () => code.textContent);
  return block;
}

/** Appends the elements of `tokens` to `parent`. */
function build(tokens, parent) {
  const open = [parent];
  for (const token of tokens) {
    const top = open[open.length - 1];
    if (token.nesting < 0) {
      if (!token.hidden) open.pop();
    } else if (token.nesting > 0) {
      if (!token.hidden) open.push(opened(token, top));
    } else if (token.type === "inline") build(token.children, top);
    else if (token.type === "softbreak" || token.type === "hardbreak") top.append(element("br"));
    else if (token.type === "code_inline") top.append(element("code", "", token.content));
    else if (token.type === "fence" || token.type === "code_block") top.append(codeBlock(token));
    else if (token.type === "hr") top.append(element("hr"));
    else if (token.type === "image") {
      const source = token.attrGet("src"); // a link: loading it would tell a stranger that, and where, this was read
      const link = anchor(source);
      link.textContent = token.content || source;
      top.append(link);
    } else top.append(token.content);
  }
}

function opened(token, parent) {
  if (!ELEMENTS.has(token.tag)) throw new Error(`markdown: no element for <${token.tag}>`);
  if (token.tag === "a") {
    const link = anchor(token.attrGet("href"));
    parent.append(link);
    return link;
  }
  const heading = /^h([1-6])$/.exec(token.tag); // the page's own title is the h1
  const made = heading ? element(`h${Math.min(6, Number(heading[1]) + 1)}`, token.tag) : element(token.tag);
  if (DIRECTED.has(token.tag)) made.dir = "auto";
  if (token.tag === "ol" && token.attrGet("start")) made.start = Number(token.attrGet("start"));
  const align = /text-align:(left|center|right)/.exec(token.attrGet("style") || "");
  if (align) made.style.textAlign = align[1];
  if (token.tag === "table") {
    const frame = element("div", "table");
    frame.tabIndex = 0;
    frame.append(made);
    parent.append(frame);
  } else parent.append(made);
  return made;
}

/**
 * A text that grows. Blocks that can change no more stay in the DOM; only what follows them is parsed again, at most
 * once a frame and never for more than a third of the time, so that a long answer costs no more than a short one.
 */
class GrowingMarkdown {
  constructor(root) {
    this.root = root;
    this.text = "";
    this.settled = 0; // characters of `text` whose blocks are final
    this.loose = []; // nodes of what follows
    this.references = {}; // link definitions in the settled text
    this.notBefore = 0;
    this.frame = 0;
  }

  append(text) {
    this.text += text;
    if (!this.frame) this.frame = requestAnimationFrame(() => this.paint());
  }

  paint() {
    this.frame = 0;
    const started = performance.now();
    if (started < this.notBefore) {
      this.frame = requestAnimationFrame(() => this.paint());
      return;
    }
    this.render(false);
    const now = performance.now();
    this.notBefore = now + 2 * (now - started);
  }

  /** All of it, now; nothing will be appended. */
  finish() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const { references } = this.parse(this.text.slice(this.settled));
    if (this.settled && Object.keys(references).length) {
      // a link's definition may have come after the block that uses it
      this.settled = 0;
      this.references = {};
      this.loose = [...this.root.childNodes];
    }
    this.render(true);
  }

  /** Half a definition must not stay for the whole one: what is found counts only once its text is settled. */
  parse(source) {
    const env = { references: { ...this.references } };
    return { tokens: parser.parse(source, env), references: env.references };
  }

  render(complete) {
    const tail = this.text.slice(this.settled);
    const { tokens } = this.parse(complete ? tail : closed(tail));
    const starts = tokens.flatMap((token, index) => (token.level === 0 && token.nesting >= 0 ? [index] : []));
    if (!complete && this.growCode(tokens)) return;
    for (const node of this.loose) node.remove();
    // A block is final once another has begun after it, on a line that is whole ("#" may yet turn out as "#tag").
    const last = starts.at(-1);
    let cut = 0;
    if (!complete && starts.length > 1) {
      cut = lineStart(tail, tokens[last].map[0]);
      if (tail.indexOf("\n", cut) < 0) cut = 0;
    }
    if (cut) {
      const settling = this.parse(tail.slice(0, cut));
      this.references = settling.references;
      build(settling.tokens, this.root);
      this.settled += cut;
    }
    const rest = document.createDocumentFragment();
    build(cut ? tokens.slice(last) : tokens, rest);
    this.loose = [...rest.childNodes];
    this.root.append(rest);
  }

  /** A code block that only got longer keeps its element: its scroll position, its button, what is selected. */
  growCode(tokens) {
    const [node] = this.loose;
    if (tokens.length !== 1 || tokens[0].type !== "fence" || this.loose.length !== 1) return false;
    if (!node.classList?.contains("code")) return false;
    const code = node.querySelector("code");
    const grown = tokens[0].content;
    const had = code.textContent;
    if (!grown.startsWith(had)) return false;
    node.querySelector("figcaption > span").textContent = tokens[0].info.trim().split(/\s+/)[0];
    if (had) code.firstChild.appendData(grown.slice(had.length));
    else code.textContent = grown;
    return true;
  }
}

function lineStart(text, line) {
  let at = 0;
  for (let passed = 0; passed < line; passed++) at = text.indexOf("\n", at) + 1;
  return at;
}

/** The text with what its last line leaves open closed, so that no `**` flashes up while the words arrive. */
function closed(text) {
  const at = text.lastIndexOf("\n") + 1;
  let line = text.slice(at);
  if (/^\s*(```|~~~)/.test(line) || (text.match(/^\s*(```|~~~)/gm) || []).length % 2) return text;
  line = line.replace(/!?\[([^\]\n]*)(\]\([^)\s]*)?$/, "$1"); // a link of which half is here: its words
  if ((line.match(/`/g) || []).length % 2) return text.slice(0, at) + line + "`";
  const bare = line.replace(/`[^`]*`/g, "");
  const marks = (bare.match(/\*\*/g) || []).length;
  if (marks % 2) {
    line = /\*\*\s*$/.test(line) ? line.replace(/\*\*\s*$/, "") : `${line.replace(/\*$/, "").trimEnd()}**`;
  }
  return text.slice(0, at) + line;
}
