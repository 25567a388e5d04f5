// A run: its prompt, tool calls, questions and answers in the order of its events. `page` has the actions of the page.

import { Call, button, changes, pendingCall, question } from "./cards.js";
import { copier, make, show } from "./markdown.js";

const SLOW_SECONDS = 3;
const DRAW_SHARE = 4; // an answer is redrawn after this multiple of the time that the last drawing took

export class Run {
  constructor(prompt, page) {
    this.page = page;
    this.calls = new Map();
    this.questions = new Map();
    this.isFinished = false;
    this.steps = make("div", { class: "steps" });
    this.busy = make("p", { class: "busy-line", hidden: true }, make("span", { class: "dots", "aria-hidden": "true" }), make("span", {}, "Thinking"), make("span", { class: "elapsed" }));
    this.node = make("article", { class: "run" }, make("h2", { class: "visually-hidden" }, "Question"),
      make("div", { class: "user-prompt", dir: "auto" }, make("span", { class: "visually-hidden" }, "You: "), prompt), this.steps, this.busy);
  }

  handle(event) {
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
    this.showProgress("Thinking");
  }

  on_text({ text }) {
    this.write((this.answer?.text ?? "") + text);
    this.showProgress("Writing");
  }

  on_message({ text, reasoning }) {
    if (reasoning) this.add(make("details", { class: "reasoning" }, make("summary", {}, "Reasoning"), make("pre", { dir: "auto" }, reasoning)));
    if (text) this.write(text, true);
    this.lastAnswer = this.answer;
    this.answer = null;
  }

  on_replaced({ text }) {
    this.answer = this.lastAnswer ?? null;
    this.write(text, true);
  }

  write(text, isWhole = false) {
    this.answer ??= { node: this.add(make("div", { class: "answer" })), text: "", due: false };
    const answer = this.answer;
    answer.text = text;
    if (isWhole) {
      answer.isWhole = true;
      show(answer.node, text);
    }
    else if (!answer.due) {
      answer.due = true;
      const draw = () => requestAnimationFrame(() => {
        const began = performance.now();
        answer.due = false;
        if (!answer.isWhole) this.page.stickToEnd(() => show(answer.node, answer.text));
        answer.took = performance.now() - began;
      });
      setTimeout(draw, (answer.took ?? 0) * DRAW_SHARE);
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
    this.call(event).showDecision(event.name, event.arguments, event.decision);
    this.showProgress(`Using ${event.name}`);
  }

  on_question(event) {
    const node = this.add(question(event, this.page.sendAnswer, this.page.removeCard));
    this.questions.set(event.question, node); // two workers can ask about calls with the same id
    requestAnimationFrame(() => this.page.reveal(node));
    this.showProgress("Waiting for you");
    this.page.announce(`May ${event.agent} call ${event.name}? ${event.task ? `For the task: ${event.task}. ` : ""}${event.reason} The buttons are before the prompt field.`, "alert");
  }

  on_settled({ question: mark }) {
    const node = this.questions.get(mark);
    this.questions.delete(mark);
    if (node?.isConnected) this.page.removeCard(node);
  }

  on_answered(event) {
    this.call(event).showAnswer(event.answer, event.text, event.edited);
  }

  on_result(event) {
    this.call(event).showResult(event);
    if (event.plan) this.showPlan(event.plan);
    this.page.announce(`${event.name}: ${event.ok ? "done" : event.status.replaceAll("_", " ")}.`);
  }

  // The model's plan, which is updated in place.
  showPlan(text) {
    this.plan ??= this.add(make("section", { class: "plan", "aria-label": "Plan" }));
    const steps = text.split("\n").map((line) => {
      const status = { x: "done", ">": "active" }[line[1]] ?? "pending";
      return make("li", { class: status, dir: "auto" }, make("span", { class: "visually-hidden" }, `${status}: `), line.slice(4));
    });
    this.plan.replaceChildren(make("ol", {}, steps));
  }

  on_waiting(event) {
    this.call(event).showPending(event.name); // possibly a call made by a program, which has no other card
  }

  on_note({ title, text }) {
    this.lastNote = { text, node: this.note(text ? `${title}: ${text}` : title) };
  }

  on_resumed({ prompt }) {
    this.isFinished = false;
    for (const node of this.steps.querySelectorAll(".question")) node.remove();
    if (prompt) this.add(make("div", { class: "user-prompt", dir: "auto" }, prompt));
  }

  on_ended(event) {
    this.finish();
    if (event.error && this.lastNote?.text === event.error) this.lastNote.node.remove(); // it would be shown twice
    if (event.error) this.note(event.error, "bad");
    if (event.status === "interrupted") this.note("Interrupted. Completed work is stored.");
    if (event.changes) this.add(changes(event, this.page.undo));
    for (const pending of event.pending) this.add(pendingCall(event.run, pending, this.page.continueRun));
    if (event.total) this.page.showCost(event.total);
    this.addFooter(event.tokens ? figures(event) : "");
    if (event.pending.length) this.page.announce(`${event.pending[0].name} is waiting for you.`, "alert");
  }

  on_stopped() {
    this.finish();
    this.note("Stopped. Completed work is stored.");
  }

  on_failed({ error }) {
    this.finish();
    this.note(error, "bad");
    this.page.announce(error, "alert");
  }

  // The end of an abandoned run: its completed work is stored, and it can be continued.
  showUnfinished(run) {
    this.note("This run did not end. Completed work is stored.");
    const node = this.add(make("div", { class: "buttons question-foot" }, button("Continue", "main", () => this.page.continueRun({ run, answers: {} }, node))));
  }

  // Figures of a run, and buttons that copy its answer and ask again.
  addFooter(text) {
    this.node.parentElement?.querySelectorAll(".again").forEach((each) => each.remove());
    const answer = this.lastAnswer;
    this.add(make("div", { class: "foot" }, text ? make("p", { class: "figures" }, text) : null,
      answer?.text ? copier(() => answer.text, "Copy answer") : null,
      button("Ask again", "again", () => this.page.regenerate())));
  }

  showProgress(what) {
    const [, label, elapsed] = this.busy.children;
    this.busy.hidden = false;
    if (label.textContent === what && this.timer) return;
    label.textContent = what;
    elapsed.textContent = "";
    clearInterval(this.timer);
    const began = performance.now();
    this.timer = setInterval(() => {
      const seconds = Math.floor((performance.now() - began) / 1000);
      elapsed.textContent = seconds >= SLOW_SECONDS ? ` ${seconds} s` : "";
    }, 1000);
  }

  finish() {
    this.isFinished = true;
    this.busy.hidden = true;
    clearInterval(this.timer);
    this.timer = null;
    for (const node of this.questions.values()) node.remove();
    for (const call of this.calls.values()) call.node.classList.remove("busy");
  }
}

export function figures({ tokens, cost }) {
  return [`${tokens.toLocaleString("en")} tokens`, cost === "unknown" ? "cost unknown" : cost].filter(Boolean).join(" · ");
}
