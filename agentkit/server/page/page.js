// The page: sign-in, conversations, prompts, events and answers.

import { attached, attach, clearFiles } from "./files.js";
import { button } from "./cards.js";
import { make } from "./markdown.js";
import { Run, figures } from "./run.js";

const KEY = "agentkit-key";
const find = (id) => document.getElementById(id);
const [log, prompt, send, stop, names, search, model] = ["log", "prompt", "send", "stop", "names", "search", "model"].map(find);
const CHECK_MILLISECONDS = 3_000;
const state = { about: null, session: "", serial: 0, running: false, run: null, stream: null };

// Requests to the server. The cookie authenticates the browser, the key proves that the request is from this page.

class Failure extends Error {
  constructor(message, code) {
    super(message);
    this.code = code;
  }
}

async function request(path, options = {}) {
  const headers = { "X-Agentkit-Key": localStorage.getItem(KEY) ?? "", ...options.headers };
  const response = await fetch(path, { ...options, headers, credentials: "same-origin", redirect: "error" });
  if (response.status === 401 && path !== "/sign-in") showSignIn();
  if (!response.ok) {
    const body = await response.json().catch(() => null);
    throw new Failure(body?.error?.message ?? `The server answered with status ${response.status}.`, body?.error?.code);
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

function showSignIn() {
  find("sign-in-page").hidden = false;
  find("chat").hidden = true;
  document.body.classList.add("signed-out");
  find("token").focus();
}

find("sign-in").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    await signIn(find("token").value.trim());
    find("token").value = find("sign-in-error").textContent = "";
    find("sign-in-page").hidden = true;
    find("chat").hidden = false;
    document.body.classList.remove("signed-out");
    await initialise();
  } catch (error) {
    find("sign-in-error").textContent = failure(error);
  }
});

// Announcements for screen readers: short progress, questions immediately, the answer when it is complete.

function announce(text, place = "status") {
  find(place).textContent = text;
}

function handleEvent(event) {
  stickToEnd(() => {
    if (event.kind === "started" || !state.run) {
      state.run?.finish();
      state.run = new Run(event.kind === "started" ? event.prompt : "", actions);
      log.append(state.run.node);
    }
    state.run.handle(event);
  });
}

// Scroll to the end while content arrives, unless the reader has scrolled away.
function stickToEnd(change) {
  const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
  change();
  if (isAtEnd) log.scrollTop = log.scrollHeight;
}

// Scroll to the start of a question, if the reader was at the end of the conversation.
function reveal(node) {
  const [above, below] = [node.getBoundingClientRect(), log.getBoundingClientRect()];
  if (log.lastElementChild.contains(node) && above.height > below.height) log.scrollTop += above.top - below.top;
}

// The event stream: one JSON line per event. After a lost connection, the stream continues where it ended.

async function streamEvents(session, serial) {
  state.stream?.abort();
  const stream = new AbortController();
  state.stream = stream;
  setRunning(true);
  let [after, isOver, wait] = [0, false, 500];
  while (!isOver && !stream.signal.aborted) {
    try {
      const query = new URLSearchParams({ session, serial, after });
      const response = await request(`/page/events?${query}`, { signal: stream.signal });
      for await (const line of linesOf(response.body)) {
        after += 1;
        wait = 500;
        handleEvent(JSON.parse(line));
      }
      isOver = true;
    } catch (error) {
      if (stream.signal.aborted) return;
      if (error instanceof Failure) {
        showError(error.message);
        setRunning(false);
        return;
      }
      await new Promise((resolve) => { setTimeout(resolve, wait); });
      wait = Math.min(10_000, wait * 2);
    }
  }
  if (stream.signal.aborted) return;
  if (state.run?.isFinished) await finishRun();
  else await openSession(session).catch((error) => showError(failure(error))); // the server no longer has this run
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

async function finishRun() {
  setRunning(false);
  const answer = state.run?.lastAnswer?.text;
  announce(answer ? `Answer: ${answer}` : "The run has ended.");
  const now = await get(`/page/state?${new URLSearchParams({ name: state.session })}`).catch(() => null);
  if (now) state.serial = now.serial;
  await listSessions().catch((error) => announce(failure(error), "alert"));
}

function setRunning(running) {
  state.running = running;
  send.hidden = running;
  stop.hidden = !running;
  document.body.classList.toggle("running", running);
}

// Actions: ask, continue, stop, undo.

async function startRun(document, path = "/page/run") {
  try {
    const options = { ...(state.session ? { session: state.session } : {}), ...(model.value.trim() ? { model: model.value.trim() } : {}) };
    const started = await post(path, { ...document, ...options });
    const isNew = !state.session;
    if (isNew) setSession(started.session);
    streamEvents(started.session, started.serial);
    if (isNew) listSessions().catch((error) => announce(failure(error), "alert"));
    return true;
  } catch (error) {
    showError(failure(error));
    return false;
  }
}

async function ask() {
  const text = prompt.value.trim();
  if (!text || state.running) return;
  find("empty")?.remove();
  const files = attached();
  prompt.value = "";
  resizePrompt();
  log.scrollTop = log.scrollHeight;
  if (await startRun({ prompt: text, ...(files.length ? { files } : {}) })) clearFiles();
  else prompt.value = text;
}

// Ask the last prompt again; the old answer is moved to a separate conversation.
async function regenerate() {
  if (state.running) return;
  const last = state.run;
  if (await startRun({}, "/page/retry")) {
    last?.node.remove();
    state.run = null;
  }
}

async function continueRun(document, node) {
  for (const each of node.querySelectorAll("button")) each.disabled = true;
  if (await startRun(document)) node.remove();
  else for (const each of node.querySelectorAll("button")) each.disabled = false;
}

async function undo(record) {
  try {
    return [(await post("/page/undo", { session: state.session, record })).done, null];
  } catch (error) {
    return [null, failure(error)];
  }
}

async function sendAnswer(document) {
  try {
    await post("/page/answer", { session: state.session, ...document });
    return null;
  } catch (error) {
    // If the answer could not be sent, the question can be answered again, unless it is no longer open.
    return { text: failure(error), isExpired: error instanceof Failure && error.code === "not_waiting" };
  }
}

// If the card with the focus was removed, move the focus to the prompt.
function removeCard(node) {
  const hadFocus = node.contains(document.activeElement);
  node.remove();
  if (hadFocus) prompt.focus({ preventScroll: true });
}

const actions = { announce, stickToEnd, continueRun, regenerate, removeCard, reveal, sendAnswer, showCost, undo };

function showError(text) {
  stickToEnd(() => log.append(make("p", { class: "note bad" }, text)));
  announce(text, "alert");
}

// The conversations.

async function listSessions() {
  const { sessions } = await get(`/page/sessions?${new URLSearchParams({ query: search.value.trim() })}`);
  const [focused, edited] = [document.activeElement, names.querySelector("form")?.closest("li")];
  const item = focused.closest("#names li")?.dataset.session;
  names.replaceChildren(...sessions.map((each) => (edited?.dataset.session === each.name ? edited : sessionItem(each))));
  if (!sessions.length && search.value.trim()) names.append(make("li", { class: "none" }, "Nothing found."));
  if (names.contains(focused)) focused.focus();
  else if (item) focusItem(item);
}

const itemOf = (session) => [...names.children].find((each) => each.dataset.session === session);
const focusItem = (session) => (itemOf(session)?.querySelector(".pick") ?? find("new")).focus();

function sessionItem(entry) {
  const { name: each, title, changed, snippet } = entry;
  const pick = make("button", { type: "button", class: "pick" },
    make("span", { class: "title", dir: "auto" }, title), make("span", { class: "date" }, dateOf(changed)),
    snippet ? make("span", { class: "snippet", dir: "auto" }, snippet) : null);
  pick.addEventListener("click", () => { location.hash = hashOf(each); });
  if (each === state.session) pick.setAttribute("aria-current", "true");
  const item = make("li", { "data-session": each }, pick);
  const rename = button("Rename", "", () => renameSession(item, entry));
  const drop = button("Delete", "deny", () => deleteSession(item, entry));
  const more = make("details", { class: "more" },
    make("summary", { "aria-label": `More for ${title}`, title: "Rename, delete" }, "⋯"), make("div", { class: "buttons" }, rename, drop));
  more.addEventListener("keydown", (pressed) => {
    if (pressed.key !== "Escape" || !more.open) return;
    pressed.stopPropagation();
    more.open = false;
    more.firstChild.focus();
  });
  item.append(more);
  return item;
}

function dateOf(seconds) {
  const date = new Date(seconds * 1000);
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday ? date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) : date.toLocaleDateString([], { day: "numeric", month: "short", year: "numeric" });
}

function renameSession(item, entry) {
  const field = make("input", { type: "text", maxlength: "200", autocomplete: "off", required: "", dir: "auto", "aria-label": `New name of ${entry.title}` });
  field.value = entry.title;
  editItem(item, entry, field, make("button", { type: "submit", class: "main" }, "Rename"), async () => {
    const { name } = await post("/page/rename", { session: entry.name, name: field.value.trim() });
    if (entry.name === state.session) setSession(name);
    return name;
  });
  field.select();
}

function deleteSession(item, entry) {
  const text = make("p", { dir: "auto" }, `Delete “${entry.title}” for good?`);
  editItem(item, entry, text, make("button", { type: "submit", class: "deny" }, "Delete"), async () => {
    await post("/page/delete", { session: entry.name });
    if (entry.name === state.session) location.hash = hashOf("");
    return "";
  });
}

// Show a form instead of an entry of the list, until it is submitted, or cancelled with the button or Escape.
function editItem(item, entry, node, submit, change) {
  const error = make("p", { role: "alert", class: "error" });
  const close = () => {
    item.replaceWith(sessionItem(entry));
    focusItem(entry.name);
  };
  const cancel = button("Cancel", "", close);
  const form = make("form", { "aria-label": `${submit.textContent} ${entry.title}` }, node, make("div", { class: "buttons" }, submit, cancel), error);
  form.addEventListener("keydown", (pressed) => {
    if (pressed.key !== "Escape") return;
    pressed.stopPropagation(); // it would stop the run
    close();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    error.textContent = "";
    try {
      const name = await change();
      form.remove();
      announce(`${submit.textContent}d.`);
      await listSessions();
      focusItem(name);
    } catch (failed) {
      error.textContent = failure(failed);
      submit.disabled = false;
    }
  });
  item.replaceChildren(form);
  (form.querySelector("input") ?? cancel).focus();
}

const hashOf = (session) => (session ? `#session=${encodeURIComponent(session)}` : "#new");

function setSession(session) {
  state.session = session;
  history.replaceState(null, "", hashOf(session));
  document.title = session ? `${session} - ${state.about.agent}` : state.about.agent;
}

async function openSession(session, { focus = true } = {}) {
  state.stream?.abort();
  state.run = null;
  setRunning(false);
  setSession(session);
  closeMenu();
  const stored = session ? await get(`/page/session?${new URLSearchParams({ name: session })}`) : { events: [] };
  log.replaceChildren();
  for (const event of stored.events) handleEvent(event);
  if (!stored.running) state.run?.finish();
  if (!stored.events.length && !stored.running) log.append(welcome());
  if (stored.unfinished && state.run && !log.querySelector(".question")) state.run.showUnfinished(stored.unfinished);
  if (stored.title) document.title = `${stored.title} - ${state.about.agent}`;
  if (stored.model) model.value = stored.model;
  state.serial = stored.serial ?? 0;
  log.scrollTop = log.scrollHeight;
  showCost(stored);
  if (stored.running) streamEvents(session, stored.serial);
  await listSessions();
  if (focus) prompt.focus({ preventScroll: true });
}

// Follow other tabs in this conversation: a run started there is shown here, without moving the focus.
async function checkOtherTabs() {
  if (!state.session || state.running || document.hidden) return;
  try {
    const now = await get(`/page/state?${new URLSearchParams({ name: state.session })}`);
    if (now.name === state.session && !state.running && now.serial !== state.serial) await openSession(state.session, { focus: false });
  } catch { /* the server does not answer now; the next check tries again */ }
}

setInterval(checkOtherTabs, CHECK_MILLISECONDS);

function showCost(spent) {
  find("cost").textContent = spent?.tokens ? figures(spent) : "";
}

// Example prompts by required tools; the first three that are possible are offered.
const EXAMPLES = [
  ["web_search", "Search the web for this week's news about heat pumps, with sources."],
  ["list_directory", "Which files are in this folder, and what are they for?"],
  ["search_files", "Find the functions without a docstring in this folder."],
  ["run_python", "Draw 1,000 random numbers and show their mean and standard deviation."],
  ["fetch_url", "Summarise https://www.python.org/downloads/ in three sentences."],
  ["calculator", "How much is 17% of 2,400, and how much remains?"],
  ["get_current_datetime", "How many days are left until the end of the year?"],
  ["", "Explain what you can do for me, in five lines."],
  ["", "Write a polite reply that declines an invitation."],
  ["", "Compare two ways to organise a small team."],
];

function welcome() {
  const { agent, tools, safety, folder } = state.about;
  const offered = new Set(tools.map((tool) => tool.name));
  const prompts = EXAMPLES.filter(([needed]) => !needed || offered.has(needed)).slice(0, 3).map(([, text]) => text);
  const examples = prompts.map((text) => make("li", {}, button(text, "example", () => { prompt.value = text; resizePrompt(); prompt.focus(); })));
  const list = tools.map((tool) => make("li", {}, make("code", {}, tool.name), " ", make("span", { class: "level" }, tool.level)));
  return make("div", { class: "empty", id: "empty" },
    make("h2", {}, `What should ${agent} do?`), make("ul", { class: "examples" }, examples),
    make("details", {}, make("summary", {}, `${tools.length} tools in ${folder}`),
      make("p", {}, `Calls above the level ${safety} need your approval.`), make("ul", { class: "tools" }, list)));
}

function closeMenu() {
  document.body.classList.remove("menu-open");
  find("menu").setAttribute("aria-expanded", "false");
}

// Keys and buttons.

function resizePrompt() {
  prompt.rows = Math.min(10, Math.max(1, prompt.value.split("\n").length, Math.ceil(prompt.value.length / 80)));
}

const stopRun = () => post("/page/stop", { session: state.session }).catch((error) => showError(failure(error)));

prompt.addEventListener("input", resizePrompt);
prompt.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    ask();
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  if (document.body.classList.contains("menu-open")) closeMenu();
  else if (state.running) stopRun();
});
find("ask").addEventListener("submit", (event) => { event.preventDefault(); ask(); });
stop.addEventListener("click", stopRun);
find("skip").addEventListener("click", (event) => { event.preventDefault(); prompt.focus(); });
find("new").addEventListener("click", () => { location.hash = hashOf(""); });
find("menu").addEventListener("click", () => {
  const isOpen = document.body.classList.toggle("menu-open");
  find("menu").setAttribute("aria-expanded", String(isOpen));
});
window.addEventListener("hashchange", () => initialise());
let searching = null;
search.addEventListener("input", () => {
  clearTimeout(searching);
  searching = setTimeout(() => listSessions().catch((error) => showError(failure(error))), 250);
});
model.addEventListener("focus", async () => {
  if (find("models").hasChildNodes()) return;
  const { models } = await get("/page/models").catch(() => ({ models: [] }));
  find("models").replaceChildren(...models.map((each) => make("option", { value: each })));
});
attach({ button: find("attach"), chooser: find("chooser"), list: find("files"), area: find("chat"), input: prompt, showError });

// Start: a token in the address is sent to the server once, and is removed from the address first.

async function initialise() {
  try {
    const parameters = new URLSearchParams(location.hash.slice(1));
    if (parameters.has("token")) {
      history.replaceState(null, "", location.pathname);
      await signIn(parameters.get("token"));
    }
    state.about ??= await get("/page/about");
    find("agent").textContent = state.about.agent;
    model.value = state.about.model;
    await openSession(parameters.get("session") ?? (parameters.has("new") ? "" : state.about.session));
  } catch (error) {
    if (find("sign-in-page").hidden) showError(failure(error));
  }
}

initialise();
