// The dashboard: runs, costs, decisions and waiting approvals, with filters that are part of the address.

import { make } from "./markdown.js";

const find = (id) => document.getElementById(id);
const form = find("filters");
const REFRESH_MILLISECONDS = 5_000;

async function get(path, query) {
  const headers = { "X-Agentkit-Key": localStorage.getItem("agentkit-key") ?? "" };
  const response = await fetch(`${path}?${new URLSearchParams(query)}`, { headers, credentials: "same-origin", redirect: "error" });
  if (response.status === 401) throw new Error("Sign in on the chat page first.");
  const document = await response.json();
  if (!response.ok) throw new Error(document.error?.message ?? `The server answered with status ${response.status}.`);
  return document;
}

const filters = () => Object.fromEntries([...new FormData(form)].filter(([, value]) => value));
const timeOf = (seconds) => new Date(seconds * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
const durationOf = (seconds) => (seconds < 60 ? `${seconds.toFixed(1)} s` : `${Math.round(seconds / 60)} min`);
const chat = (session) => `/#session=${encodeURIComponent(session)}`;
const chip = ({ verdict, rule, times }) => make("span", { class: `chip ${verdict}` }, `${times} ${verdict}: ${rule}`);

function fillOptions(name, values) {
  const select = form.elements[name];
  const chosen = select.value;
  const wanted = chosen && !values.includes(chosen) ? [...values, chosen] : values;
  select.replaceChildren(make("option", { value: "" }, "any"), ...wanted.map((value) => make("option", {}, value)));
  select.value = chosen;
}

function figure(term, value) {
  return make("div", {}, make("dt", {}, term), make("dd", {}, value));
}

function rowOf(run) {
  const recording = make("details", { class: "recording" }, make("summary", {}, "Recording"));
  recording.addEventListener("toggle", async () => {
    if (!recording.open || recording.children.length > 1) return;
    try {
      const { text } = await get("/page/recording", { session: run.session, run: run.run });
      recording.append(make("pre", { tabindex: "0", dir: "auto" }, text));
    } catch (error) {
      recording.append(make("p", { class: "error" }, error.message));
    }
  });
  return make("li", { class: "run-row", "data-run": run.run },
    make("h3", { dir: "auto" }, run.prompt || "(no prompt)"),
    make("p", { class: "figures" }, make("span", { class: `chip ${run.status}` }, run.status),
      ` ${timeOf(run.began)} · ${durationOf(run.seconds)} · ${run.tokens.toLocaleString()} tokens · cost ${run.cost} · ${run.agent} · `,
      make("a", { href: chat(run.session) }, "Open the conversation")),
    run.decisions.length ? make("p", { class: "chips" }, run.decisions.map(chip)) : null,
    run.error ? make("p", { class: "error", dir: "auto" }, run.error) : null,
    run.waiting.map((question) => make("pre", { class: "asks", tabindex: "0", dir: "auto" }, question)),
    recording);
}

let shown = "";

async function refresh() {
  const wanted = filters();
  try {
    const board = await get("/page/runs", wanted);
    find("alert").textContent = "";
    const state = JSON.stringify([wanted, board]);
    if (state === shown) return;
    shown = state;
    const { totals } = board;
    fillOptions("tool", board.tools);
    fillOptions("status", [...new Set([...board.statuses, "waiting"])]);
    find("totals").replaceChildren(figure("Runs", totals.runs.toLocaleString()), figure("Tokens", totals.tokens.toLocaleString()),
      figure("Cost", totals.cost), figure("Waiting", (totals.waiting + board.waiting.length).toLocaleString()));
    find("waiting").hidden = !board.waiting.length;
    find("waiting").querySelector("ul").replaceChildren(...board.waiting.map(({ session, question }) =>
      make("li", {}, make("pre", { tabindex: "0", dir: "auto" }, question), make("a", { href: chat(session) }, "Answer in the conversation"))));
    find("decisions").replaceChildren(...(totals.decisions.length ? totals.decisions.map(chip) : ["No tool was called."]));
    const open = new Set([...document.querySelectorAll(".run-row .recording[open]")].map((each) => each.parentElement.dataset.run));
    const rows = board.runs.map(rowOf);
    for (const row of rows) if (open.has(row.dataset.run)) row.querySelector(".recording").open = true;
    find("runs").replaceChildren(...(rows.length ? rows : [make("li", { class: "empty" }, "No run matches the filters.")]));
    if (totals.shown < totals.runs) find("runs").append(make("li", { class: "empty" }, `Only the newest ${totals.shown} are listed.`));
  } catch (error) {
    find("alert").textContent = error instanceof TypeError ? "The server does not answer. Is it still running?" : error.message;
  }
}

for (const [name, value] of new URLSearchParams(location.search)) {
  const field = form.elements[name];
  if (!field) continue;
  if (field.tagName === "SELECT" && ![...field.options].some((each) => each.value === value)) field.append(make("option", {}, value));
  field.value = value;
}
form.addEventListener("input", () => {
  const query = new URLSearchParams(filters()).toString();
  history.replaceState(null, "", query ? `?${query}` : location.pathname);
  refresh();
});
form.addEventListener("submit", (event) => event.preventDefault());
setInterval(() => { if (!document.hidden) refresh(); }, REFRESH_MILLISECONDS);
refresh();
