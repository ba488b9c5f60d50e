// Refreshes the current page at an interval that the user selects. A failed refresh is reported
// once, in a line that stays until a refresh succeeds. Nothing is requested while the tab is
// hidden; a refresh follows when it becomes visible. A page with expensive requests may set
// `pause_ms`, the least time between its refreshes.

import {h} from "./dom.js";
import {session} from "./session.js";
import {ofBrowser} from "./store.js";

const KEY = "leveret.refresh";
const INTERVALS = [["5", "every 5 seconds"], ["1", "every second"], ["15", "every 15 seconds"],
  ["60", "every minute"], ["0", "off"]];

let page = null;
let timer = null;
let isOver = () => {};

// Adds the choice of the interval to `select`; over() is called when the login has become invalid.
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

// Sets the page to refresh; null for none. Until it has its first data, it says that it is loading.
export async function keepUpdating(shown) {
  page = shown;
  say("");
  sayLoading(Boolean(shown?.refresh));
  await refreshNow();
  if (shown === page) sayLoading(false);
}

export async function refreshNow() {
  clearTimeout(timer);
  const shown = page;
  if (!shown) return;
  if (!session.credentials) {
    isOver("Logged out: the session has ended.");
    return;
  }
  let isWorthwhile = true;
  try {
    await shown.refresh?.();
    if (shown === page) say("");
  } catch (error) {
    // A page that the user may not see is not requested repeatedly.
    isWorthwhile = error.status !== 401;
    if (shown === page) failed(error);
  }
  // An answer for a page that was left must not stop the refreshes of the next one.
  if (shown !== page) return;
  clearTimeout(timer);
  const chosen_ms = interval_ms();
  if (!chosen_ms || !isWorthwhile) return;
  timer = setTimeout(beat, Math.max(chosen_ms, shown.pause_ms ?? 0));
}

// The selected interval; 0 if refresh is off.
export const interval_ms = () => Number(document.getElementById("refresh").value) * 1000;

function beat() {
  if (!document.hidden) refreshNow();
}

function failed(error) {
  if (error.status === 401 && error.code === "not_authorized") {
    isOver("Logged out: the login is no longer valid.");
    return;
  }
  if (error.status === 401) say(`Access refused: ${error.message}`);
  else if (error.status === 404) say("Not found: the object does not exist, or was deleted.");
  else say(`Cannot refresh: ${error.message}`);
}

function sayLoading(isLoading) {
  document.getElementById("loading").hidden = !isLoading;
  document.getElementById("main").setAttribute("aria-busy", String(isLoading));
}

function say(text) {
  const line = document.getElementById("problem");
  if (line.textContent !== text) line.textContent = text;
  line.hidden = !text;
}
