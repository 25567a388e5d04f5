// How does a run look while it happens? Its prompt, its tool calls and answers in the order in which they come.
// `page` is what it may do beside: announce, answer, go on, undo, and keep the end in sight.

import { Call, changes, question, waiting } from "./cards.js";
import { make, show } from "./markdown.js";

export class Run {
  constructor(asked, page) {
    this.page = page;
    this.calls = new Map();
    this.questions = new Map();
    this.isOver = false;
    this.steps = make("div", { class: "steps" });
    this.busy = make("p", { class: "busy-line", hidden: true }, make("span", { class: "dots", "aria-hidden": "true" }), "Thinking");
    this.node = make("article", { class: "run" },
      make("div", { class: "asked", dir: "auto" }, make("span", { class: "unseen" }, "You: "), asked), this.steps, this.busy);
  }

  hear(event) {
    this[`on_${event.kind}`]?.(event);
  }

  add(node) {
    this.steps.append(node);
    return node;
  }

  note(text, kind = "") {
    return this.add(make("p", { class: `note ${kind}`, dir: "auto" }, text));
  }

  on_request() {
    this.answer = null;
    this.working("Thinking");
  }

  on_text({ text }) {
    this.write((this.answer?.text ?? "") + text);
    this.working("Writing");
  }

  on_said({ text, reasoning }) {
    if (reasoning) this.add(make("details", { class: "reasoning" }, make("summary", {}, "Reasoning"), make("pre", { dir: "auto" }, reasoning)));
    if (text) this.write(text, true);
    this.said = this.answer;
    this.answer = null;
  }

  on_amended({ text }) {
    this.answer = this.said ?? null;
    this.write(text, true);
  }

  write(text, isWhole = false) {
    this.answer ??= { node: this.add(make("div", { class: "answer" })), text: "", due: false };
    const answer = this.answer;
    answer.text = text;
    if (isWhole) show(answer.node, text);
    else if (!answer.due) {
      answer.due = true;
      requestAnimationFrame(() => { answer.due = false; this.page.following(() => show(answer.node, answer.text)); });
    }
  }

  call(event) {
    if (!this.calls.has(event.id)) {
      const call = new Call();
      this.calls.set(event.id, call);
      this.add(call.node);
    }
    return this.calls.get(event.id);
  }

  on_call(event) {
    this.call(event).judged(event.name, event.arguments, event.decision);
    this.working(`Using ${event.name}`);
  }

  on_asked(event) {
    const node = this.add(question(event, this.page.answer));
    this.questions.set(event.id, node);
    requestAnimationFrame(() => this.page.reveal(node));
    this.working("Waiting for you");
    this.page.announce(`May ${event.agent} call ${event.name}? ${event.decision.reason} The buttons stand before the question field.`, "alert");
  }

  on_answered(event) {
    this.questions.get(event.id)?.remove();
    this.call(event).answered(event.answer, event.text, event.edited);
  }

  on_result(event) {
    this.questions.get(event.id)?.remove();
    this.call(event).ended(event);
    this.page.announce(`${event.name}: ${event.ok ? "done" : event.status.replaceAll("_", " ")}.`);
  }

  on_waits(event) {
    this.questions.get(event.id)?.remove();
    this.call(event).waits(event.name); // which may be a call that a program makes, and that has no other card
  }

  on_note({ what, words }) {
    this.noted = { words, node: this.note(words ? `${what}: ${words}` : what) };
  }

  on_resumed({ prompt: words }) {
    this.isOver = false;
    for (const node of this.steps.querySelectorAll(".question")) node.remove();
    if (words) this.add(make("div", { class: "asked", dir: "auto" }, words));
  }

  on_ended(event) {
    this.over();
    if (event.error && this.noted?.words === event.error) this.noted.node.remove(); // it would be told twice
    if (event.error) this.note(event.error, "bad");
    if (event.status === "interrupted") this.note("Interrupted. What was done is kept.");
    if (event.changes) this.add(changes(event, this.page.undo));
    for (const pending of event.pending) this.add(waiting(event.run, pending, this.page.goOn));
    if (event.total) this.page.showCost(event.total);
    if (event.tokens) this.add(make("p", { class: "figures" }, figures(event)));
    if (event.pending.length) this.page.announce(`${event.pending[0].name} waits for you.`, "alert");
  }

  on_stopped() {
    this.over();
    this.note("Stopped. What was done is kept.");
  }

  on_failed({ error }) {
    this.over();
    this.note(error, "bad");
    this.page.announce(error, "alert");
  }

  working(what) {
    this.busy.hidden = false;
    this.busy.lastChild.textContent = what;
  }

  over() {
    this.isOver = true;
    this.busy.hidden = true;
    for (const node of this.questions.values()) node.remove();
    for (const call of this.calls.values()) call.node.classList.remove("busy");
  }
}

export function figures({ tokens, cost }) {
  return [`${tokens.toLocaleString("en")} tokens`, cost === "unknown" ? "cost unknown" : cost].filter(Boolean).join(" · ");
}
