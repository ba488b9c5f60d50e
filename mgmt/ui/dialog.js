// Notices that come and go, and dialogs that ask. The dialog element keeps the focus in itself,
// ends with Escape, and gives the focus back.

import {h} from "./dom.js";

export function notice(text, failed = false) {
  const element = h("div", {class: failed ? "notice failed" : "notice"}, text);
  document.getElementById("notices").append(element);
  setTimeout(() => element.remove(), failed ? 9000 : 4000);
}

// Do something that may fail, and say how it went; whether it went well.
export async function attempt(what, work) {
  try {
    await work();
  } catch (error) {
    notice(`${what}: ${error.message}`, true);
    return false;
  }
  notice(what);
  return true;
}

export function open(title, ...children) {
  const dialog = h("dialog", {"aria-label": title}, h("h2", {}, title), ...children);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

// Whether the user says yes. detail: what will be gone.
export function confirm(title, detail, yes = "Delete") {
  return new Promise((resolve) => {
    let answer = false;
    const dialog = open(title, h("p", {}, detail), h("div", {class: "row"},
      h("button", {type: "button", class: "danger", onclick: () => { answer = true; dialog.close(); }}, yes),
      h("button", {type: "button", autofocus: true, onclick: () => dialog.close()}, "Cancel")));
    dialog.addEventListener("close", () => resolve(answer));
  });
}
