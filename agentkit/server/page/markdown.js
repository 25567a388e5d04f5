// Markdown of models as elements. markdown-it parses the text; elements and text nodes are built from its tokens, never
// from HTML, so that the text cannot become anything but text.

import MarkdownIt from "/vendor/markdown-it.js";

const FIRST_HEADING = 2; // the page has h1, each question h2
const parser = new MarkdownIt("default", { html: false, linkify: true, breaks: true, maxNesting: 40 });
parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false, fuzzyIP: false });
parser.disable(["image", "entity"]);
parser.validateLink = (address) => /^https?:\/\//i.test(address);

export function make(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  // Attributes come last: with dir="auto" already set, every child would have all of them read again.
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) node.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, value);
  }
  return node;
}

// Show the text in the element. Unchanged blocks stay, so that nothing flickers while text arrives.
const shown = new WeakMap();

export function show(element, text) {
  const blocks = blocksOf(text);
  const before = shown.get(element) ?? [];
  let same = 0;
  while (same < before.length && same < blocks.length && before[same] === blocks[same].source) same += 1;
  while (element.childNodes.length > same) element.lastChild.remove();
  for (const block of blocks.slice(same)) element.append(build(block.tokens));
  shown.set(element, blocks.map((block) => block.source));
}

// The top-level blocks of a text: the source and the tokens of each.
function blocksOf(text) {
  const lines = text.split("\n");
  const blocks = [];
  let tokens = [];
  for (const token of parser.parse(text, {})) {
    tokens.push(token);
    if (token.level === 0 && token.nesting <= 0) {
      const [start, end] = tokens[0].map ?? [0, lines.length];
      blocks.push({ source: `${tokens[0].type}\n${lines.slice(start, end).join("\n")}`, tokens });
      tokens = [];
    }
  }
  return blocks;
}

const NAMES = { strong: "strong", em: "em", s: "del", blockquote: "blockquote", bullet_list: "ul", table: "table", thead: "thead", tbody: "tbody", tr: "tr" };

// The element of the tokens of one block. Elements are filled before they are attached.
function build(tokens) {
  const open = [{ node: null, children: [] }];
  for (const token of tokens) {
    if (token.nesting === 1) open.push({ token, children: [] });
    else if (token.nesting === -1) {
      const { token: start, children } = open.pop();
      open.at(-1).children.push(...[element(start, children)].flat());
    } else open.at(-1).children.push(...leaf(token));
  }
  const [first, ...more] = open[0].children;
  return more.length ? make("div", {}, open[0].children) : first ?? make("p");
}

function element(token, children) {
  const name = token.type.replace(/_open$/, "");
  switch (name) {
    case "paragraph": return token.hidden ? children : make("p", { dir: "auto" }, children);
    case "heading": return make(`h${Math.min(6, Number(token.tag[1]) + FIRST_HEADING)}`, { dir: "auto" }, children);
    case "list_item": return make("li", { dir: "auto" }, children);
    case "ordered_list": return make("ol", { start: token.attrGet("start") }, children);
    case "th": case "td": return make(name, { dir: "auto" }, children);
    case "table": return make("div", { class: "wide", tabindex: "0", role: "group", "aria-label": "Table" }, make("table", {}, children));
    case "link": return link(token.attrGet("href"), children);
    default: return make(NAMES[name] ?? "span", {}, children);
  }
}

function leaf(token) {
  switch (token.type) {
    case "inline": return inline(token.children);
    case "fence": case "code_block": return [code(token.content.replace(/\n$/, ""), token.info.trim().split(/\s/)[0])];
    case "hr": return [make("hr")];
    default: return [token.content];
  }
}

function inline(tokens) {
  const open = [[]];
  const starts = [];
  for (const token of tokens) {
    if (token.nesting === 1) {
      starts.push(token);
      open.push([]);
    } else if (token.nesting === -1) {
      const children = open.pop();
      open.at(-1).push(element(starts.pop(), children));
    } else if (token.type === "code_inline") open.at(-1).push(make("code", {}, token.content));
    else if (token.type === "softbreak" || token.type === "hardbreak") open.at(-1).push(make("br"));
    else open.at(-1).push(token.content);
  }
  return open[0];
}

// A block of code with colours and a button that copies it.
export function code(text, language = "") {
  const label = language ? `Code in ${language}` : "Code";
  return make("div", { class: "code-block" },
    make("pre", { tabindex: "0", role: "group", "aria-label": label, dir: "ltr" }, make("code", {}, coloured(text, language))), text.trim() ? copier(() => text, "Copy code") : null);
}

// One expression finds comments, texts, numbers and words; each alternative takes time that grows with its match.
const PIECES = /(?<text>"(?:[^"\\\n]|\\.){0,2000}"|'(?:[^'\\\n]|\\.){0,2000}'|`[^`\\\n]{0,2000}`)|(?<comment>\/\/[^\n]*|#(?![\w-]{3,8}\b(?:[;,)]|$))[^\n]*)|(?<number>\b\d[\w.]*\b)|(?<word>\b[A-Za-z_]\w*\b)/g;
const KEYWORDS = new Set(("and as async await break case catch class const continue def default del do done echo elif else end enum esac except export extends false False fi final finally fn for from func function if impl import in interface is lambda let loop match mod mut namespace new nil None not null or package pass private protected pub public raise return select self static struct switch then this throw True true try type typeof union update use using val var void where while with yield").split(" "));
const PLAIN = new Set(["", "text", "txt", "plain", "md", "markdown", "console", "output"]);
const MAX_COLOURED_CHARS = 20_000;

function coloured(text, language) {
  if (PLAIN.has(language.toLowerCase()) || text.length > MAX_COLOURED_CHARS) return [text];
  const nodes = [];
  let place = 0;
  for (const found of text.matchAll(PIECES)) {
    const kind = found.groups.text ? "text" : found.groups.comment ? "comment" : found.groups.number ? "number" : KEYWORDS.has(found[0]) ? "word" : "";
    if (!kind) continue;
    nodes.push(text.slice(place, found.index), make("span", { class: `code-${kind}` }, found[0]));
    place = found.index + found[0].length;
  }
  return [...nodes, text.slice(place)];
}

// A button that copies a text, and states whether that worked.
export function copier(text, label) {
  const node = make("button", { type: "button", class: "copy", "aria-label": label, title: label }, "Copy");
  node.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text());
      node.textContent = "Copied";
    } catch {
      node.textContent = "Not copied";
    }
    setTimeout(() => { node.textContent = "Copy"; }, 2000);
  });
  return node;
}

// A link to the web that names its host, unless its label is the address itself in printable ASCII.
function link(address, content) {
  let target = null;
  try {
    target = new URL(address);
  } catch { /* no address that a browser knows: shown as text */ }
  const label = content.map((each) => (typeof each === "string" ? each : each.textContent)).join("");
  if (!target || !["http:", "https:"].includes(target.protocol)) return make("span", {}, content, address ? ` (${address})` : "");
  const origin = `${target.protocol}//${target.host}`;
  const isAddress = [target.href, target.href.replace(/\/$/, ""), target.host, origin].includes(label);
  const isShown = !target.username && !target.password && isAddress && /^[!-~]+$/.test(label);
  const host = isShown ? [] : [make("span", { class: "host", dir: "ltr" }, ` (${target.host})`)];
  return make("a", { href: target.href, target: "_blank", rel: "noopener noreferrer nofollow", title: target.href },
    make("bdi", { class: "label", dir: isShown ? "ltr" : "auto" }, content), host);
}
