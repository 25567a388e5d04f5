// Files and images that are attached to the next prompt: chosen, dropped or pasted.

import { button } from "./cards.js";
import { make } from "./markdown.js";

const MAX_BYTES = 20_000_000;
const attachments = [];
let fileList = null;

// The attached files as the server takes them: name, and content in base64.
export function attached() {
  return attachments.map(({ name, data }) => ({ name, data }));
}

export function clearFiles() {
  attachments.length = 0;
  render();
}

export function attach({ button: opener, chooser, list, area, input, showError }) {
  fileList = list;
  const add = async (files) => {
    for (const file of files) {
      const total = attachments.reduce((sum, each) => sum + each.size, file.size);
      if (total > MAX_BYTES) showError(`${file.name} is not attached: the files of a question have at most ${MAX_BYTES / 1e6} MB.`);
      else attachments.push({ name: file.name || "pasted image", size: file.size, data: await base64(file) });
    }
    render();
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

function render() {
  fileList.replaceChildren(...attachments.map((file) => make("li", {}, make("bdi", {}, file.name),
    button("×", "", () => { attachments.splice(attachments.indexOf(file), 1); render(); }))));
  for (const [index, each] of [...fileList.querySelectorAll("button")].entries()) each.setAttribute("aria-label", `Remove ${attachments[index].name}`);
}

async function base64(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let start = 0; start < bytes.length; start += 0x8000) text += String.fromCharCode(...bytes.subarray(start, start + 0x8000));
  return btoa(text);
}
