// The banner of a standby, shown on every page until it is promoted.

import {get} from "./api.js";
import {mayMonitor} from "./session.js";

const COLUMNS = "operating_mode,state,upstream";
const SAID = {
  held: "it is held, and waits for an operator", failed: "it cannot follow now",
  disabled: "following is disabled",
};

// Looks whether this cluster is a standby. Users without the tag monitoring are not told.
export async function refreshStandby() {
  const found = mayMonitor() ? await get("schema-replication", {columns: COLUMNS}) : {};
  show(found.operating_mode === "downstream" ? textOf(found) : "");
}

export const hideStandby = () => show("");

function textOf({state, upstream}) {
  const what = SAID[state] ? `: ${SAID[state]}` : "";
  return `This cluster is a standby of ${upstream.endpoints.join(", ")}${what}`;
}

function show(text) {
  const banner = document.getElementById("standby");
  if (banner.textContent !== text) banner.textContent = text;
  banner.hidden = !text;
}
