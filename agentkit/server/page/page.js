// What does the page do? It signs in, shows a conversation, asks, hears what happens, and answers.

import { button } from "./cards.js";
import { make } from "./markdown.js";
import { Run, figures } from "./run.js";

const KEY = "agentkit-key";
const find = (id) => document.getElementById(id);
const [log, prompt, send, stop, names] = ["log", "prompt", "send", "stop", "names"].map(find);
const state = { about: null, session: "", serial: 0, running: false, run: null, listening: null };

// Talking to the server. The cookie says that this browser is signed in, the key that it is this page which asks.

class Failure extends Error {}

async function request(path, options = {}) {
  const headers = { "X-Agentkit-Key": localStorage.getItem(KEY) ?? "", ...options.headers };
  const response = await fetch(path, { ...options, headers, credentials: "same-origin", redirect: "error" });
  if (response.status === 401 && path !== "/sign-in") signInFirst();
  if (!response.ok) {
    const told = await response.json().catch(() => null);
    throw new Failure(told?.error?.message ?? `The server answered with status ${response.status}.`);
  }
  return response;
}

async function post(path, document) {
  const response = await request(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(document) });
  return response.json();
}

const get = async (path) => (await request(path)).json();
const failure = (error) => (error instanceof Failure ? error.message : "The server does not answer. Is it still running?");

async function signIn(token) {
  localStorage.setItem(KEY, (await post("/sign-in", { token })).key);
}

function signInFirst() {
  find("sign-in").hidden = false;
  document.body.classList.add("stranger");
  find("token").focus();
}

find("sign-in").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    await signIn(find("token").value.trim());
    find("token").value = find("sign-in-error").textContent = "";
    find("sign-in").hidden = true;
    document.body.classList.remove("stranger");
    await begin();
  } catch (error) {
    find("sign-in-error").textContent = failure(error);
  }
});

// What a screen reader hears: what happens in short, questions at once, the answer when it is whole.

function announce(text, place = "status") {
  find(place).textContent = text;
}

function hear(event) {
  following(() => {
    if (event.kind === "begun" || !state.run) {
      state.run = new Run(event.kind === "begun" ? event.prompt : "", actions);
      log.append(state.run.node);
    }
    state.run.hear(event);
  });
}

// Keep the end in sight while something comes, unless the reader has gone elsewhere.
function following(change) {
  const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
  change();
  if (isAtEnd) log.scrollTop = log.scrollHeight;
}

// Show a question from its beginning, if the reader is at the end of the conversation, which it then is.
function reveal(node) {
  const [above, below] = [node.getBoundingClientRect(), log.getBoundingClientRect()];
  if (log.lastElementChild.contains(node) && above.height > below.height) log.scrollTop += above.top - below.top;
}

// Listening: a line of JSON for each thing that happens. A lost connection is taken up where it was lost.

async function listen(session, serial) {
  state.listening?.abort();
  const listening = new AbortController();
  state.listening = listening;
  setRunning(true);
  let [after, isOver, wait] = [0, false, 500];
  while (!isOver && !listening.signal.aborted) {
    try {
      const query = new URLSearchParams({ session, serial, after });
      const response = await request(`/page/events?${query}`, { signal: listening.signal });
      for await (const line of linesOf(response.body)) {
        after += 1;
        wait = 500;
        hear(JSON.parse(line));
      }
      isOver = true;
    } catch (error) {
      if (listening.signal.aborted) return;
      if (error instanceof Failure) {
        tell(error.message);
        setRunning(false);
        return;
      }
      await new Promise((resolve) => { setTimeout(resolve, wait); });
      wait = Math.min(10_000, wait * 2);
    }
  }
  if (listening.signal.aborted) return;
  if (state.run?.isOver) await ended();
  else await open(session).catch((error) => tell(failure(error))); // the server knows nothing of this run any more
}

async function* linesOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    const lines = (rest + read.value).split("\n");
    rest = lines.pop();
    yield* lines.filter(Boolean);
  }
}

async function ended() {
  setRunning(false);
  const answer = state.run?.said?.text;
  announce(answer ? `Answer: ${answer}` : "The run has ended.");
  await listSessions().catch((error) => announce(failure(error), "alert"));
}

function setRunning(running) {
  state.running = running;
  send.hidden = running;
  stop.hidden = !running;
  document.body.classList.toggle("running", running);
}

// Doing: ask, go on, stop, undo.

async function start(document) {
  try {
    const begun = await post("/page/run", { ...document, ...(state.session ? { session: state.session } : {}) });
    if (!state.session) name(begun.session);
    listen(begun.session, begun.serial);
    return true;
  } catch (error) {
    tell(failure(error));
    return false;
  }
}

async function ask() {
  const text = prompt.value.trim();
  if (!text || state.running) return;
  find("empty")?.remove();
  prompt.value = "";
  grow();
  log.scrollTop = log.scrollHeight;
  if (!await start({ prompt: text })) prompt.value = text;
}

async function goOn(document, node) {
  for (const each of node.querySelectorAll("button")) each.disabled = true;
  if (await start(document)) node.remove();
  else for (const each of node.querySelectorAll("button")) each.disabled = false;
}

async function undo(record) {
  try {
    return [(await post("/page/undo", { session: state.session, record })).done, null];
  } catch (error) {
    return [null, failure(error)];
  }
}

async function answer(document) {
  try {
    await post("/page/answer", { session: state.session, ...document });
    prompt.focus({ preventScroll: true });
    return "";
  } catch (error) {
    return failure(error);
  }
}

const actions = { announce, answer, following, goOn, reveal, showCost, undo };

function tell(text) {
  following(() => log.append(make("p", { class: "note bad" }, text)));
  announce(text, "alert");
}

// The conversations.

async function listSessions() {
  const { sessions } = await get("/page/sessions");
  names.replaceChildren(...sessions.map(({ name: each }) => {
    const pick = button(each, "", () => { location.hash = hashOf(each); });
    if (each === state.session) pick.setAttribute("aria-current", "true");
    return make("li", { dir: "auto" }, pick);
  }));
}

const hashOf = (session) => (session ? `#session=${encodeURIComponent(session)}` : "#new");

function name(session) {
  state.session = session;
  history.replaceState(null, "", hashOf(session));
  document.title = session ? `${session} - ${state.about.agent}` : state.about.agent;
}

async function open(session) {
  state.listening?.abort();
  state.run = null;
  setRunning(false);
  name(session);
  fold();
  const kept = session ? await get(`/page/session?${new URLSearchParams({ name: session })}`) : { events: [] };
  log.replaceChildren();
  for (const event of kept.events) hear(event);
  if (!kept.events.length && !kept.running) log.append(welcome());
  log.scrollTop = log.scrollHeight;
  showCost(kept);
  if (kept.running) listen(session, kept.serial);
  await listSessions();
  prompt.focus({ preventScroll: true });
}

function showCost(spent) {
  find("cost").textContent = spent?.tokens ? figures(spent) : "";
}

function welcome() {
  const { tools, safety, folder } = state.about;
  const listed = tools.map((tool) => make("li", {}, make("code", {}, tool.name), " ", make("span", { class: "level" }, tool.level)));
  return make("div", { class: "empty", id: "empty" },
    make("p", {}, `Tool calls up to the level ${safety} run unasked. You are asked here about all others, unless they are denied.`),
    make("p", {}, "It works in ", make("code", {}, folder), "."),
    tools.length ? make("details", {}, make("summary", {}, `${tools.length} tools`), make("ul", {}, listed)) : null);
}

function fold() {
  document.body.classList.remove("unfolded");
  find("menu").setAttribute("aria-expanded", "false");
}

// The keys and buttons.

function grow() {
  prompt.rows = Math.min(10, Math.max(1, prompt.value.split("\n").length, Math.ceil(prompt.value.length / 80)));
}

const halt = () => post("/page/stop", { session: state.session }).catch((error) => tell(failure(error)));

prompt.addEventListener("input", grow);
prompt.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    ask();
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  if (document.body.classList.contains("unfolded")) fold();
  else if (state.running) halt();
});
find("ask").addEventListener("submit", (event) => { event.preventDefault(); ask(); });
stop.addEventListener("click", halt);
find("skip").addEventListener("click", (event) => { event.preventDefault(); prompt.focus(); });
find("new").addEventListener("click", () => { location.hash = hashOf(""); });
find("menu").addEventListener("click", () => {
  const unfolded = document.body.classList.toggle("unfolded");
  find("menu").setAttribute("aria-expanded", String(unfolded));
});
window.addEventListener("hashchange", () => begin());

// The beginning: a token in the address is shown to the server once, and leaves the address before anything else.

async function begin() {
  try {
    const asked = new URLSearchParams(location.hash.slice(1));
    if (asked.has("token")) {
      history.replaceState(null, "", location.pathname);
      await signIn(asked.get("token"));
    }
    state.about ??= await get("/page/about");
    find("agent").textContent = state.about.agent;
    find("facts").textContent = state.about.model;
    await open(asked.get("session") ?? (asked.has("new") ? "" : state.about.session));
  } catch (error) {
    if (find("sign-in").hidden) tell(failure(error));
  }
}

begin();
