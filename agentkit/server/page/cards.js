// Cards for tool calls, questions and changes. Every text becomes a text node.

import { make } from "./markdown.js";

const VERDICTS = { allow: "allowed", ask: "asks", deny: "denied" };
const ANSWER_NOTES = { once: "allowed once by you", run: "allowed for this run by you", always: "always allowed by you", pattern: "always allowed by you", workspace: "allowed with all changes here by you", impossible: "cannot succeed", no: "denied by you", later: "postponed" };
const ANSWER_LABELS = { once: "Allow once", run: "Allow for this run", workspace: "Allow all changes in this folder", always: "Always allow" };
const DELAY_MILLISECONDS = 500; // input from before the question was visible must not answer it
const PREVIEW_CHARS = 120;

export function chip(text, kind) {
  return make("span", { class: `chip ${kind}` }, text);
}

export function fields(pairs) {
  const rows = pairs.map(([name, value]) => [name ? make("dt", {}, name) : null, make("dd", { dir: "auto", tabindex: "0" }, value || " ")]);
  return make("dl", { class: "fields" }, rows);
}

function reasons(decision) {
  return make("div", { class: "reasons" },
    make("p", {}, decision.reason, " ", make("span", { class: "rule" }, `rule: ${decision.rule}`)),
    decision.evidence.length > 1 ? make("p", {}, "Because of ", make("code", {}, decision.evidence)) : null,
    decision.remedy ? make("p", {}, decision.remedy) : null);
}

// A tool call: the summary has its name, decision and status; the open card has all details.
export class Call {
  constructor() {
    this.name = make("code", { class: "tool" });
    this.verdict = make("span", { class: "chips" });
    this.preview = make("span", { class: "preview" });
    this.time = make("span", { class: "time" });
    this.body = make("div", { class: "call-body" });
    const head = make("summary", {}, this.name, this.verdict, this.preview, this.time);
    this.node = make("details", { class: "call" }, head, this.body);
  }

  showDecision(name, pairs, decision) {
    this.name.textContent = name;
    const [verdict, word] = [decision.verdict, VERDICTS[decision.verdict] ?? decision.verdict];
    if (!this.isAnswered) this.verdict.replaceChildren(chip(word, verdict));
    this.preview.textContent = pairs.map(([, value]) => value).join(" ").slice(0, PREVIEW_CHARS);
    this.body.replaceChildren(pairs.length ? fields(pairs) : "", reasons(decision));
    this.node.classList.add("busy");
  }

  showPending(name) {
    this.name.textContent = name;
    this.showAnswer("later", "", false);
  }

  showAnswer(answer, text, edited) {
    this.isAnswered = true;
    const kind = answer === "no" ? "deny" : answer === "later" ? "ask" : "allow";
    this.verdict.replaceChildren(chip(`${ANSWER_NOTES[answer] ?? answer}${edited ? ", edited" : ""}`, kind));
    this.answerText = text;
  }

  showResult(event) {
    this.node.classList.remove("busy");
    if (!this.body.hasChildNodes()) this.showDecision(event.name, event.arguments, event.decision ?? { verdict: "deny", reason: event.content, rule: "-" });
    this.node.classList.remove("busy");
    if (event.seconds >= 0.1) this.time.textContent = `${event.seconds.toFixed(1)} s`;
    const word = event.ok ? "Result" : `No result (${event.status.replaceAll("_", " ")})`;
    if (!event.ok && event.status !== "denied") this.verdict.append(chip(event.status.replaceAll("_", " "), "deny"));
    this.body.append(this.answerText ? make("p", { class: "answer-text" }, `Your answer: ${this.answerText}`) : "",
      make("h3", {}, word), make("pre", { tabindex: "0", class: event.ok ? "result" : "result bad", dir: "auto" }, event.content));
  }
}

// Buttons that are enabled only after the user can have read the text above them.
function enableLater(buttons) {
  for (const each of buttons) each.disabled = true;
  setTimeout(() => { for (const each of buttons) each.disabled = false; }, DELAY_MILLISECONDS);
}

// A question about a call, with the effect of the call and its decision. It can be sent again after a lost connection.
export function question(event, send, remove) {
  const id = `question-${event.question}`;
  const reason = make("input", { id: `${id}-reason`, type: "text", maxlength: "1000", autocomplete: "off", dir: "auto" });
  const edit = make("textarea", { id: `${id}-json`, rows: "6", spellcheck: "false", class: "code", dir: "ltr" });
  edit.value = event.json;
  const error = make("p", { role: "alert", class: "error" });
  const buttons = event.answers.map((answer) => button(answer === "pattern" ? `Always allow ${event.pattern}` : ANSWER_LABELS[answer], answer === "once" ? "main" : "", () => finish({ answer })));
  const deny = button("Deny", "deny", () => finish({ answer: "no", text: reason.value }));
  const run = button("Allow once with these arguments", "main", () => finish({ answer: "once", arguments: edit.value }));
  const all = [...buttons, deny, run];
  enableLater(all);
  const scope = event.answers.length > 1 ? make("p", { class: "remark" }, `${event.like === event.always ? "“For this run” and “Always” apply" : `“For this run” applies to ${event.like}, “Always”`} to ${event.always}${event.folder ? ` in ${event.folder}` : ""}.`) : null;
  const node = make("section", { class: "question", "aria-labelledby": `${id}-title ${id}-task` },
    make("h3", { id: `${id}-title` }, `May ${event.agent} call `, make("code", {}, event.name), event.within ? [" within ", make("code", {}, event.within)] : "", "?"),
    event.task ? make("p", { id: `${id}-task`, dir: "auto" }, make("span", { class: "remark" }, "For the task: "), event.task) : null,
    event.arguments.length ? fields(event.arguments) : null,
    event.summary.map((line) => make("p", { class: "effect", dir: "auto" }, line)),
    event.diff ? diffOf(event.diff) : null,
    make("p", {}, event.reason, " ", make("span", { class: "rule" }, `rule: ${event.decision.rule}`)),
    make("div", { class: "buttons" }, buttons), scope,
    make("p", { class: "reason-row" }, make("label", { for: reason.id }, "Reason for the model"), reason, deny),
    make("details", { class: "edit" }, make("summary", {}, "Edit the arguments"),
      make("label", { class: "visually-hidden", for: edit.id }, "Arguments as JSON"), edit, make("div", { class: "buttons" }, run)), error);
  reason.addEventListener("keydown", (pressed) => { if (pressed.key === "Enter" && reason.value.trim()) deny.click(); });
  const finish = async (answer) => {
    for (const each of all) each.disabled = true;
    error.textContent = "";
    const failure = await send({ question: event.question, ...answer });
    if (!failure) {
      remove(node);
      return;
    }
    error.textContent = failure.text;
    node.classList.toggle("expired", failure.isExpired);
    for (const each of all) each.disabled = failure.isExpired;
  };
  return node;
}

// A call of a paused run: it waits for approval, or for a text that becomes its result.
export function pendingCall(run, pending, send) {
  const id = `waiting-${pending.id}`;
  const text = make("input", { id, type: "text", maxlength: "4000", autocomplete: "off" });
  const answerWith = (answer) => () => send({ run, answers: { [pending.id]: { answer, text: text.value } } }, node);
  const buttons = pending.needs_text
    ? [button("Answer", "main", answerWith("text"))]
    : [button("Allow once", "main", answerWith("once")), button("Deny", "deny", answerWith("no"))];
  enableLater(buttons);
  const node = make("section", { class: "question" },
    make("h3", {}, make("code", {}, pending.name), " is waiting for you"), make("pre", { dir: "auto", tabindex: "0" }, pending.question),
    make("p", { class: "reason-row" }, make("label", { for: id }, pending.needs_text ? "Your answer" : "Reason for the model"), text),
    make("div", { class: "buttons" }, buttons));
  return node;
}

// The changes of a run in its folder, and the button that undoes them.
export function changes(event, undo) {
  const status = make("p", { role: "status", class: "remark" }, event.undone ? "Undone." : "");
  const undoButton = event.record && !event.undone ? button("Undo", "", async () => {
    undoButton.disabled = true;
    const [done, failure] = await undo(event.record);
    status.textContent = done ?? failure;
    if (done) undoButton.remove();
    else undoButton.disabled = false;
  }) : "";
  return make("section", { class: "changes" },
    make("details", {}, make("summary", { dir: "auto" }, changedFiles(event.changes)),
      diffOf(event.changes)),
    make("div", { class: "buttons" }, undoButton), status);
}

// The file names: "diff --git a/NAME b/NAME" has the name twice, so half of it is the name, whatever it contains.
function changedFiles(text) {
  const heads = text.split("\n").filter((line) => line.startsWith("diff --git ")).map((line) => line.slice(11));
  const names = heads.map((head) => head.slice((head.length + 1) / 2).replace(/^("?)b\//, "$1"));
  if (!names.length) return "Changed in the folder";
  return names.length > 3 ? `Changed ${names.length} files` : `Changed ${names.join(", ")}`;
}

function diffOf(text) {
  return make("pre", { class: "diff", tabindex: "0", role: "group", "aria-label": "Changes" }, make("code", {}, text.trimEnd().split("\n").map(diffLine)));
}

function diffLine(line) {
  if (/^(\+\+\+|---|diff )/.test(line)) return make("span", { class: "file" }, `${line}\n`);
  if (line.startsWith("@@")) return make("span", { class: "hunk" }, `${line}\n`);
  const name = { "+": "ins", "-": "del" }[line[0]] ?? "span";
  return make(name, {}, `${line}\n`);
}

export function button(text, kind, pressed) {
  const node = make("button", { type: "button", class: kind }, text);
  node.addEventListener("click", pressed);
  return node;
}
