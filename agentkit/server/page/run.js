// A run: its prompt, tool calls, questions and answers in the order of its events. `page` has the actions of the page.

import { Call, button, changes, question, waiting } from "./cards.js";
import { copier, make, show } from "./markdown.js";

const SLOW_SECONDS = 3;
const DRAW_SHARE = 4; // an answer is redrawn after this multiple of the time that the last drawing took

export class Run {
  constructor(asked, page) {
    this.page = page;
    this.calls = new Map();
    this.questions = new Map();
    this.isOver = false;
    this.steps = make("div", { class: "steps" });
    this.busy = make("p", { class: "busy-line", hidden: true }, make("span", { class: "dots", "aria-hidden": "true" }), make("span", {}, "Thinking"), make("span", { class: "elapsed" }));
    this.node = make("article", { class: "run" }, make("h2", { class: "unseen" }, "Question"),
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
    if (isWhole) {
      answer.isWhole = true;
      show(answer.node, text);
    }
    else if (!answer.due) {
      answer.due = true;
      const draw = () => requestAnimationFrame(() => {
        const began = performance.now();
        answer.due = false;
        if (!answer.isWhole) this.page.following(() => show(answer.node, answer.text));
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
    this.call(event).judged(event.name, event.arguments, event.decision);
    this.working(`Using ${event.name}`);
  }

  on_asked(event) {
    const node = this.add(question(event, this.page.answer, this.page.removed));
    this.questions.set(event.question, node); // two workers can ask about calls with the same id
    requestAnimationFrame(() => this.page.reveal(node));
    this.working("Waiting for you");
    this.page.announce(`May ${event.agent} call ${event.name}? ${event.reason} The buttons are before the prompt field.`, "alert");
  }

  on_settled({ question: mark }) {
    const node = this.questions.get(mark);
    this.questions.delete(mark);
    if (node?.isConnected) this.page.removed(node);
  }

  on_answered(event) {
    this.call(event).answered(event.answer, event.text, event.edited);
  }

  on_result(event) {
    this.call(event).ended(event);
    if (event.plan) this.showPlan(event.plan);
    this.page.announce(`${event.name}: ${event.ok ? "done" : event.status.replaceAll("_", " ")}.`);
  }

  // The model's plan, which is updated in place.
  showPlan(text) {
    this.plan ??= this.add(make("section", { class: "plan", "aria-label": "Plan" }));
    const steps = text.split("\n").map((line) => {
      const status = { x: "done", ">": "active" }[line[1]] ?? "pending";
      return make("li", { class: status, dir: "auto" }, make("span", { class: "unseen" }, `${status}: `), line.slice(4));
    });
    this.plan.replaceChildren(make("ol", {}, steps));
  }

  on_waits(event) {
    this.call(event).waits(event.name); // possibly a call made by a program, which has no other card
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
    if (event.error && this.noted?.words === event.error) this.noted.node.remove(); // it would be shown twice
    if (event.error) this.note(event.error, "bad");
    if (event.status === "interrupted") this.note("Interrupted. Completed work is stored.");
    if (event.changes) this.add(changes(event, this.page.undo));
    for (const pending of event.pending) this.add(waiting(event.run, pending, this.page.goOn));
    if (event.total) this.page.showCost(event.total);
    this.foot(event.tokens ? figures(event) : "");
    if (event.pending.length) this.page.announce(`${event.pending[0].name} waits for you.`, "alert");
  }

  on_stopped() {
    this.over();
    this.note("Stopped. Completed work is stored.");
  }

  on_failed({ error }) {
    this.over();
    this.note(error, "bad");
    this.page.announce(error, "alert");
  }

  // The end of an abandoned run: its completed work is stored, and it can be continued.
  leave(run) {
    this.note("This run did not end. Completed work is stored.");
    const node = this.add(make("div", { class: "buttons question-foot" }, button("Continue", "main", () => this.page.goOn({ run, answers: {} }, node))));
  }

  // Figures of a run, and buttons that copy its answer and ask again.
  foot(text) {
    this.node.parentElement?.querySelectorAll(".again").forEach((each) => each.remove());
    const said = this.said;
    this.add(make("div", { class: "foot" }, text ? make("p", { class: "figures" }, text) : null,
      said?.text ? copier(() => said.text, "Copy answer") : null,
      button("Ask again", "again", () => this.page.regenerate())));
  }

  working(what) {
    const [, words, elapsed] = this.busy.children;
    this.busy.hidden = false;
    if (words.textContent === what && this.timer) return;
    words.textContent = what;
    elapsed.textContent = "";
    clearInterval(this.timer);
    const began = performance.now();
    this.timer = setInterval(() => {
      const seconds = Math.floor((performance.now() - began) / 1000);
      elapsed.textContent = seconds >= SLOW_SECONDS ? ` ${seconds} s` : "";
    }, 1000);
  }

  over() {
    this.isOver = true;
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
