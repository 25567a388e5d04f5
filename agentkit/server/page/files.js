// Files and images that are attached to the next prompt: chosen, dropped or pasted.

import { button } from "./cards.js";
import { make } from "./markdown.js";

const MAX_BYTES = 20_000_000;
const waiting = [];
let place = null;

// The attached files as the server takes them: name, and content in base64.
export function attached() {
  return waiting.map(({ name, data }) => ({ name, data }));
}

export function clearFiles() {
  waiting.length = 0;
  draw();
}

export function attach({ button: opener, chooser, list, area, input, tell }) {
  place = list;
  const add = async (files) => {
    for (const file of files) {
      const total = waiting.reduce((sum, each) => sum + each.size, file.size);
      if (total > MAX_BYTES) tell(`${file.name} is not attached: the files of a question have at most ${MAX_BYTES / 1e6} MB.`);
      else waiting.push({ name: file.name || "pasted image", size: file.size, data: await base64(file) });
    }
    draw();
  };
  opener.addEventListener("click", () => chooser.click());
  chooser.addEventListener("change", () => { add([...chooser.files]); chooser.value = ""; });
  input.addEventListener("paste", (event) => {
    const files = [...event.clipboardData.files];
    if (!files.length) return;
    event.preventDefault();
    add(files);
  });
  area.addEventListener("dragover", (event) => { if (event.dataTransfer.types.includes("Files")) event.preventDefault(); });
  area.addEventListener("drop", (event) => {
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    add([...event.dataTransfer.files]);
  });
}

function draw() {
  place.replaceChildren(...waiting.map((file) => make("li", {}, make("bdi", {}, file.name),
    button("×", "", () => { waiting.splice(waiting.indexOf(file), 1); draw(); }))));
  for (const [at, each] of [...place.querySelectorAll("button")].entries()) each.setAttribute("aria-label", `Remove ${waiting[at].name}`);
}

async function base64(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}
