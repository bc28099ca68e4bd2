// Makes a function of an expression's source. In it names are looked up in the scope alone, `.first(…)` and the other
// extension methods are found by their symbol (on a nullish value, too), and computed keys are checked.

const { Fault, refuse, methods } = convoq;
const Compile = Function;

const isAsync = (node) => node.async && "async";
const NOT_ALLOWED = {
  ArrowFunctionExpression: isAsync,
  AwaitExpression: () => "await",
  ForOfStatement: (node) => node.await && "for await",
  FunctionDeclaration: isAsync,
  FunctionExpression: isAsync,
  ImportExpression: () => "import()",
  MetaProperty: (node) => `${node.meta.name}.${node.property.name}`,
};

const invalid = (reason) => new Fault(`invalid syntax: ${reason}`);

/** The first statement, which has to be an expression; what follows it counts for nothing, as in n8n. */
function parsed(source) {
  const tokens = [];
  let program;
  try {
    program = acorn.parse(source, { ecmaVersion: "latest", sourceType: "script", onToken: tokens });
  } catch (error) {
    throw invalid(error.message);
  }
  const [first] = program.body;
  if (first === undefined) throw invalid("there is no expression");
  if (first.type !== "ExpressionStatement") throw invalid(`${first.type} is not an expression`);
  return { expression: first.expression, tokens };
}

class Rewriter {
  constructor(source) {
    Object.assign(this, parsed(source), { source, edits: [] });
  }

  /** The expression's source with all edits made. Of edits at one place the outer node's comes first. */
  get text() {
    this.visit(this.expression);
    this.edits.sort((a, b) => a.from - b.from || a.order - b.order);
    let made = "";
    let at = this.expression.start;
    for (const { from, to, text } of this.edits) {
      made += this.source.slice(at, from) + text;
      at = to;
    }
    return made + this.source.slice(at, this.expression.end);
  }

  edit(from, to, text) {
    this.edits.push({ from, to, text, order: this.edits.length });
  }

  visit(node) {
    const what = NOT_ALLOWED[node.type]?.(node);
    if (what) throw invalid(`${what} is not allowed in an expression`);
    this[node.type]?.(node);
    for (const name in node) {
      for (const inner of [node[name]].flat()) if (inner?.type) this.visit(inner);
    }
  }

  Identifier({ name }) {
    if (name === "arguments") refuse(name);
  }

  Literal({ raw, value, start, end }) {
    if (typeof value === "number" && /^0\d/.test(raw)) this.edit(start, end, String(value));
  }

  /** As the printer of n8n's compiler has it, which people's prompts went through: after a line break a tab indents by
   *  four, and between a word's last letter and what is inserted stands a space. */
  TemplateElement({ value: { cooked, raw }, start, end, tail }) {
    const four = (spaces) => " ".repeat(4 * Math.ceil(spaces.length / 4));
    let text = raw.replace(/(?<=\n)[ \t]+/g, (indent) => indent.replace(/ *\t/g, four));
    if (!tail && cooked?.includes("\n") && /[\w\n]$/.test(raw)) text += " ";
    if (text !== raw) this.edit(start, end, text);
  }

  ObjectPattern({ properties }) {
    for (const { computed, key } of properties) {
      if (computed) throw invalid("a computed key is not allowed in a pattern");
      if (key) refuse(key.name ?? String(key.value));
    }
  }

  MemberExpression({ computed, property }) {
    if (!computed) {
      if (property.type === "Identifier") refuse(property.name);
    } else if (typeof property.value === "string") {
      refuse(property.value);
    } else if (typeof property.value !== "number") {
      this.edit(property.start, property.start, "__key(");
      this.edit(property.end, property.end, ")");
    }
  }

  CallExpression({ callee, optional }) {
    if (callee.type !== "MemberExpression" || callee.computed || callee.object.type === "Super") return;
    const { object, property } = callee;
    if (!Object.hasOwn(methods, property.name)) return;
    const dot = this.before(property);
    const found = `${callee.optional ? "?." : ""}[__methods.${property.name}]`;
    if (optional || callee.optional || mayEnd(object)) {
      if (!optional && !callee.optional && object.type === "MemberExpression") this.some(object);
      this.edit(dot.start, property.end, found);
    } else {
      this.edit(callee.start, callee.start, "__some(");
      this.edit(dot.start, property.end, `)${found}`);
    }
  }

  /** In a chain that may end before: its last link gives what stands for a nullish value. */
  some({ computed, optional, property, end }) {
    const before = this.before(property);
    if (computed && this.source[before.start] === "[") {
      this.edit(before.start, before.end, "[__member](");
      this.edit(end - 1, end, ")");
    } else if (property.type === "Identifier") {
      this.edit(before.start, property.end, `${optional ? "?." : ""}[__member]("${property.name}")`);
    }
  }

  before(node) {
    return this.tokens[this.tokens.findIndex((token) => token.start === node.start) - 1];
  }
}

/** Whether the chain that `node` belongs to may end before it, at a `?.`. */
function mayEnd(node) {
  if (node.optional) return true;
  if (node.type === "MemberExpression") return mayEnd(node.object);
  return node.type === "CallExpression" && mayEnd(node.callee);
}

/** `(scope) => value`; raises `Fault`. Every call makes all its functions and objects anew. */
convoq.compile = function compile(source) {
  const text = new Rewriter(source.startsWith("{") ? `(${source}\n)` : source).text;
  let made;
  try {
    made = new Compile(
      "__scope",
      "__methods",
      "__some",
      "__key",
      "__member",
      `with (__scope) return (function () { "use strict"; return (${text}\n); }).call({});`,
    );
  } catch (error) {
    throw invalid(error.message);
  }
  return (scope) => made(scope, methods, convoq.some, convoq.key, convoq.member);
};
