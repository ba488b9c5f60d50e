// Notices and dialogs. The dialog element keeps the focus, closes with Escape, and restores the
// focus. A notice belongs to the page on which its action began: it goes with the page, and names
// it if the user has gone on before the action ended.

import {h, uniqueId} from "./dom.js";

const SHOWN_MS = 4000;
const FAILURE_SHOWN_MS = 10_000;

// The page that is shown: its address without its state, and its title.
export const thisPage = () => ({where: location.hash.split("?")[0],
  title: document.querySelector("main h1")?.textContent ?? ""});

// page: where the action began that the notice is about.
export function notice(text, failed = false, page = thisPage()) {
  const isElsewhere = page.where !== thisPage().where;
  const said = isElsewhere ? `${page.title}: ${text}` : text;
  const element = h("div", {class: failed ? "notice failed" : "notice"}, said, h("button",
    {type: "button", "aria-label": "Dismiss", onclick: () => element.remove()}, "×"));
  document.getElementById("notices").append(element);
  setTimeout(() => element.remove(), failed ? FAILURE_SHOWN_MS : SHOWN_MS);
}

export function clearNotices() {
  document.getElementById("notices").replaceChildren();
}

// Runs an action that may fail, and reports success or the error; returns whether it succeeded.
export async function attempt(done, work) {
  const page = thisPage();
  try {
    await work();
  } catch (error) {
    notice(`Failed: ${error.message}`, true, page);
    return false;
  }
  notice(done, false, page);
  return true;
}

export function open(title, ...children) {
  const id = uniqueId("dialog");
  const dialog = h("dialog", {"aria-labelledby": id, onclose: () => dialog.remove()},
    h("h2", {id}, title), ...children);
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

// A dialog with a form and a Cancel button.
export function openForm(title, form, ...before) {
  const dialog = open(title, ...before, form);
  form.lastChild.append(h("button", {type: "button", onclick: () => dialog.close()}, "Cancel"));
  return dialog;
}

// As confirm(), but the user has to type the name of what is deleted.
export function confirmByName(title, detail, name, yes = "Delete") {
  const id = uniqueId("name");
  const input = h("input", {id, autocomplete: "off", spellcheck: "false"});
  const answer = confirm(title, detail, yes, h("div", {class: "field"},
    h("label", {for: id}, `Type the name ${name} to confirm`), input));
  const agree = input.closest("dialog").querySelector("button.danger");
  agree.disabled = true;
  input.oninput = () => { agree.disabled = input.value !== name; };
  return answer;
}

// Returns whether the user confirms. detail: the consequence. more: controls shown with it.
export function confirm(title, detail, yes = "Delete", ...more) {
  return new Promise((resolve) => {
    let answer = false;
    const agree = () => {
      answer = true;
      dialog.close();
    };
    const dialog = open(title, h("p", {}, detail), ...more, h("div", {class: "row"},
      h("button", {type: "button", class: "danger", onclick: agree}, yes),
      h("button", {type: "button", autofocus: true, onclick: () => dialog.close()}, "Cancel")));
    dialog.addEventListener("close", () => resolve(answer));
  });
}
