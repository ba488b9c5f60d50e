// Pages update themselves: the page that is shown is refreshed at an interval that the reader
// chooses. A refresh that fails is said once, in the line that stays until one succeeds. Nothing is
// asked for while the tab is hidden; it catches up when it is seen again. A page that asks for much
// may have a `pause_ms`, for which it is left alone at least.

import {h} from "./dom.js";
import {session} from "./session.js";
import {ofBrowser} from "./store.js";

const KEY = "leveret.refresh";
const INTERVALS = [["5", "every 5 s"], ["1", "every second"], ["15", "every 15 s"],
  ["60", "every minute"], ["0", "paused"]];

let page = null;
let timer = null;
let isOver = () => {};

// The choice of the interval goes into `select`; over() is called when the login is no longer good.
export function beginUpdates(select, over) {
  isOver = over;
  for (const [value, text] of INTERVALS) select.append(h("option", {value}, text));
  select.value = ofBrowser.get(KEY) ?? "5";
  if (!select.value) select.value = "5";
  select.onchange = () => {
    ofBrowser.set(KEY, select.value);
    refreshNow();
  };
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) refreshNow();
  });
}

// From now on it is this page that is kept up to date; null: none.
export async function keepUpdating(shown) {
  page = shown;
  say("");
  await refreshNow();
}

export async function refreshNow() {
  clearTimeout(timer);
  const shown = page;
  if (!shown || !session.credentials) return;
  let isWorthwhile = true;
  try {
    await shown.refresh?.();
    if (shown === page) say("");
  } catch (error) {
    // What may not be seen now is not asked for again and again.
    isWorthwhile = error.status !== 401;
    if (shown === page) failed(error);
  }
  clearTimeout(timer);
  const chosen_ms = interval_ms();
  if (!chosen_ms || !isWorthwhile || shown !== page) return;
  timer = setTimeout(beat, Math.max(chosen_ms, shown.pause_ms ?? 0));
}

// The one that is chosen; 0 if pages do not update themselves.
export const interval_ms = () => Number(document.getElementById("refresh").value) * 1000;

function beat() {
  if (!document.hidden) refreshNow();
}

function failed(error) {
  if (error.status === 401 && error.code === "not_authorized") {
    isOver("You are logged out: the node does not take this login any more.");
    return;
  }
  if (error.status === 401) say(`Your user may not see this: ${error.message}`);
  else if (error.status === 404) say("It is not there: it was deleted, or there never was one.");
  else say(`What is shown may be old: ${error.message}`);
}

function say(text) {
  const line = document.getElementById("problem");
  if (line.textContent !== text) line.textContent = text;
  line.hidden = !text;
}
