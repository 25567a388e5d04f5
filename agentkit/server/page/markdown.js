// How does a model's Markdown become a page? As elements and text nodes made one by one, never as HTML:
// whatever the text says, it can be nothing but text. Time grows with the length of the text, whatever it is.

const MOST_LEVELS = 6;
// Each is matched in time that grows with the line: no two parts of one can take the same characters.
const FENCE = /^ {0,3}(`{3,}(?!`)|~{3,}(?!~))[ \t]*(?![ \t])([\w+#.-]*)(?![\w+#.-])[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(?![ \t])|$)/;
const RULE = /^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$/;
const ITEM = /^( {0,12})([-*+]|\d{1,9}[.)])(?:[ \t]+(?![ \t])|$)/;
const CELL = /^:?-+:?$/;
const ADDRESS = /https?:\/\/[^\s<>"'`]+/y;
const WORD = /[\p{L}\p{N}]/u;

export function make(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  // Attributes come last: with dir="auto" already there, every child would have all of them read once more.
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) node.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, value);
  }
  return node;
}

// Show the text in the element. What has not changed since is left alone, so that nothing flickers while text comes in.
const shown = new WeakMap();

export function show(element, text) {
  const blocks = blocksOf(text.split("\n"), 0);
  const before = shown.get(element) ?? [];
  let same = 0;
  while (same < before.length && same < blocks.length && before[same] === blocks[same].source) same += 1;
  while (element.childNodes.length > same) element.lastChild.remove();
  for (const block of blocks.slice(same)) element.append(block.build());
  shown.set(element, blocks.map((block) => block.source));
}

// The blocks in some lines: each its source, and what builds it.
function blocksOf(lines, level) {
  const blocks = [];
  let place = 0;
  while (place < lines.length) {
    if (!lines[place].trim()) {
      place += 1;
      continue;
    }
    const [length, build] = blockAt(lines, place, level);
    blocks.push({ source: lines.slice(place, place + length).join("\n"), build });
    place += length;
  }
  return blocks;
}

function blockAt(lines, place, level) {
  const line = lines[place];
  const fence = FENCE.exec(line);
  if (fence) return fenced(lines, place, fence);
  const heading = HEADING.exec(line);
  if (heading) return [1, () => make(`h${Math.min(6, heading[1].length + 2)}`, { dir: "auto" }, inline(titleOf(line.slice(heading[0].length))))];
  if (RULE.test(line)) return [1, () => make("hr")];
  if (level < MOST_LEVELS && /^ {0,3}>/.test(line)) return quoted(lines, place, level);
  if (level < MOST_LEVELS && ITEM.test(line)) return listed(lines, place, level);
  if (line.includes("|") && isRuler(lines[place + 1] ?? "")) return table(lines, place);
  return paragraph(lines, place, level);
}

// A heading without the marks that may close it.
function titleOf(text) {
  const title = text.trimEnd();
  let end = title.length;
  while (title[end - 1] === "#") end -= 1;
  return title.slice(0, end).trimEnd();
}

// The line below the head of a table.
function isRuler(line) {
  return line.includes("|") && line.includes("-") && cells(line).every((cell) => CELL.test(cell));
}

function fenced(lines, place, [, marks, language]) {
  let end = place + 1;
  while (end < lines.length && !(lines[end].trim().startsWith(marks) && !lines[end].trim().replaceAll(marks[0], ""))) end += 1;
  const code = lines.slice(place + 1, end).join("\n");
  const label = language ? `Code in ${language}` : "Code";
  const build = () => make("pre", { tabindex: "0", role: "group", "aria-label": label }, make("code", {}, code));
  return [Math.min(end + 1, lines.length) - place, build];
}

function quoted(lines, place, level) {
  let end = place;
  while (end < lines.length && /^ {0,3}>/.test(lines[end])) end += 1;
  const inner = lines.slice(place, end).map((line) => line.replace(/^ {0,3}> ?/, ""));
  return [end - place, () => make("blockquote", {}, built(inner, level + 1))];
}

function listed(lines, place, level) {
  const first = ITEM.exec(lines[place]);
  const [indent, isOrdered] = [first[1].length, /\d/.test(first[2])];
  const items = [];
  let end = place;
  while (end < lines.length) {
    const item = ITEM.exec(lines[end]);
    const depth = /^ */.exec(lines[end])[0].length;
    if (item && depth <= indent + 1 && /\d/.test(item[2]) === isOrdered && !RULE.test(lines[end])) items.push([lines[end].slice(item[0].length)]);
    else if (lines[end].trim() && depth > indent) items.at(-1).push(lines[end].slice(Math.min(depth, indent + first[2].length + 1)));
    else if (!lines[end].trim() && isInside(lines[end + 1], indent)) items.at(-1).push("");
    else break;
    end += 1;
  }
  const start = isOrdered && parseInt(first[2], 10) !== 1 ? String(parseInt(first[2], 10)) : null;
  const build = () => make(isOrdered ? "ol" : "ul", { start }, items.map((item) => make("li", { dir: "auto" }, tight(item, level + 1))));
  return [end - place, build];
}

function isInside(line, indent) {
  return line !== undefined && line.trim() !== "" && (/^ */.exec(line)[0].length > indent || ITEM.test(line));
}

// An item of one paragraph stands without one around it.
function tight(lines, level) {
  const blocks = blocksOf(lines, level).map((block) => block.build());
  return blocks.flatMap((block) => (block.localName === "p" && blocks[0] === block ? [...block.childNodes] : [block]));
}

function table(lines, place) {
  let end = place + 2;
  while (end < lines.length && lines[end].includes("|") && lines[end].trim()) end += 1;
  const [head, , ...rows] = lines.slice(place, end).map(cells);
  const row = (name, texts) => make("tr", {}, texts.slice(0, head.length).map((text) => make(name, { dir: "auto" }, inline(text))));
  const build = () => make("div", { class: "wide", tabindex: "0", role: "group", "aria-label": "Table" },
    make("table", {}, make("thead", {}, row("th", head)), make("tbody", {}, rows.map((texts) => row("td", texts)))));
  return [end - place, build];
}

function cells(line) {
  return line.trim().replace(/^\|/, "").replace(/\|$/, "").split("|").map((cell) => cell.trim());
}

function paragraph(lines, place, level) {
  let end = place + 1;
  while (end < lines.length && lines[end].trim() && !begins(lines, end, level)) end += 1;
  return [end - place, () => make("p", { dir: "auto" }, inline(lines.slice(place, end).join("\n")))];
}

function begins(lines, place, level) {
  const line = lines[place];
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || (level < MOST_LEVELS && (/^ {0,3}>/.test(line) || ITEM.test(line)));
}

function built(lines, level) {
  return blocksOf(lines, level).map((block) => block.build());
}

// What stands within a line: a mark whose end is nowhere is text. What was found of a mark is not looked for again.
function inline(text, level = 0, isLabel = false) {
  const nodes = [];
  const known = new Map();
  let [plain, place] = ["", 0];
  const push = (node, next) => {
    if (plain) nodes.push(...withBreaks(plain));
    nodes.push(node);
    [plain, place] = ["", next];
  };
  const closing = (mark, from) => {
    const before = known.get(mark);
    if (before !== undefined && (before < 0 || before >= from)) return before;
    const end = text.indexOf(mark, from);
    known.set(mark, end);
    return end;
  };
  while (place < text.length) {
    const found = level < MOST_LEVELS ? spanAt(text, place, closing, level, isLabel) : null;
    if (found) push(...found);
    else if (text[place] === "\\" && /[!-/:-@[-`{-~]/.test(text[place + 1] ?? "")) {
      plain += text[place + 1];
      place += 2;
    } else {
      const run = /^(`+|\*+|_+|~+)/.exec(text.slice(place, place + 40));
      plain += run ? run[0] : text[place];
      place += run ? run[0].length : 1;
    }
  }
  if (plain) nodes.push(...withBreaks(plain));
  return nodes;
}

// In the label of a link there are no further links.
function spanAt(text, place, closing, level, isLabel) {
  if (isLabel && "![h<".includes(text[place])) return null;
  switch (text[place]) {
    case "`": return codeAt(text, place, closing);
    case "*": case "_": case "~": return emphasisAt(text, place, closing, level, isLabel);
    case "!": return text[place + 1] === "[" ? linkAt(text, place + 1, closing, level) : null;
    case "[": return linkAt(text, place, closing, level);
    case "h": case "<": return addressAt(text, place);
    default: return null;
  }
}

function codeAt(text, place, closing) {
  let length = 1;
  while (text[place + length] === "`" && length < 5) length += 1;
  const mark = "`".repeat(length);
  const end = closing(mark, place + length);
  return end < 0 ? null : [make("code", {}, text.slice(place + length, end).trim() || " "), end + length];
}

function emphasisAt(text, place, closing, level, isLabel) {
  const char = text[place];
  const isDouble = text[place + 1] === char;
  const mark = isDouble ? char + char : char;
  const from = place + mark.length;
  if ((char === "~" && !isDouble) || /\s/.test(text[from] ?? " ")) return null;
  if (char === "_" && WORD.test(text[place - 1] ?? "")) return null;
  let end = closing(mark, from + 1);
  if (isDouble && end >= 0 && text[from] === char && text[end + 2] === char) end += 1;
  if (!isDouble && end >= 0 && text[end + 1] === char) end = closing(mark.repeat(2) + mark, end) >= 0 ? end : -1;
  if (end < 0 || /\s/.test(text[end - 1]) || (char === "_" && WORD.test(text[end + mark.length] ?? ""))) return null;
  const name = char === "~" ? "del" : isDouble ? "strong" : "em";
  return [make(name, {}, inline(text.slice(from, end), level + 1, isLabel)), end + mark.length];
}

function linkAt(text, place, closing, level) {
  const middle = closing("](", place);
  if (middle < 0 || middle - place > 1000 || text.slice(place + 1, middle).includes("\n\n")) return null;
  const end = closing(")", middle);
  if (end < 0 || end - middle > 4000) return null;
  const label = text.slice(place + 1, middle);
  const [address] = text.slice(middle + 2, end).trim().split(/\s/, 1);
  return [link(address ?? "", inline(label, level + 1, true), label), end + 1];
}

function addressAt(text, place) {
  const isAngled = text[place] === "<";
  ADDRESS.lastIndex = place + (isAngled ? 1 : 0);
  const found = WORD.test(text[place - 1] ?? "") ? null : ADDRESS.exec(text);
  if (!found) return null;
  const address = isAngled ? found[0] : withoutEnd(found[0]);
  const end = place + address.length + (isAngled ? 1 : 0);
  if (isAngled && text[end] !== ">") return null;
  return [link(address, [address], address), end + (isAngled ? 1 : 0)];
}

// An address without the marks behind it, which belong to the sentence.
function withoutEnd(text) {
  let end = text.length;
  while (".,;:!?)]}*_~".includes(text[end - 1])) end -= 1;
  return text.slice(0, end);
}

// A link to the web that says where it leads; any other address is text. Pictures are links: nothing is loaded.
function link(address, content, label) {
  let target = null;
  try {
    target = new URL(address);
  } catch { /* no address that a browser knows: shown as text */ }
  if (!target || !["http:", "https:"].includes(target.protocol)) return make("span", {}, content, address ? ` (${address})` : "");
  // Only a label that is the address itself tells where it leads; each stands in a direction of its own.
  const origin = `${target.protocol}//${target.host}`;
  const isAddress = label === address && address.startsWith(origin);
  const isTold = !target.username && !target.password && (isAddress || [target.href, target.host, origin].includes(label));
  const host = isTold ? [] : [make("span", { class: "host" }, ` (${target.host})`)];
  return make("a", { href: target.href, target: "_blank", rel: "noopener noreferrer nofollow", title: target.href }, make("span", { class: "label" }, content), host);
}

function withBreaks(text) {
  return text.split("\n").flatMap((line, index) => (index ? [make("br"), line] : [line]));
}
