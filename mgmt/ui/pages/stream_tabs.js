// The pages about all streams: connections, and super streams.

import {h} from "../dom.js";

const PAGES = [["connections", "Connections", "#/stream"],
  ["super-streams", "Super streams", "#/stream/super-streams"]];

export const streamTabs = (chosen) => h("nav", {class: "tabs", "aria-label": "Pages of streams"},
  PAGES.map(([page, title, href]) =>
    h("a", {"aria-current": page === chosen ? "page" : undefined, href}, title)));
