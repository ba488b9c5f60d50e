// The virtual host that the pages are about, as chosen at the top: one of them, or all.
//
// Lists of objects of virtual hosts have the choice in their address, so that it can be sent. The
// browser remembers it for all other pages.

import {ApiError, get} from "./api.js";
import {h, render} from "./dom.js";
import {query, setQuery} from "./router.js";
import {ofBrowser} from "./store.js";

const KEY = "leveret.vhost";

// Returns the chosen virtual host; "" for all.
export const chosenVhost = () => query().vhost ?? ofBrowser.get(KEY) ?? "";

// The names of the virtual hosts that the user may see.
export const vhostNames = async () =>
  (await get("vhosts", {columns: "name"})).map(({name}) => name);

// A choice in the element `select`. changed(): called after another one was chosen.
export class VhostChoice {
  constructor(select, changed) {
    this.select = select;
    select.onchange = () => {
      ofBrowser.set(KEY, select.value);
      setQuery({vhost: "", page: ""});
      changed();
    };
  }

  // Shows the choice that the address or the browser has, among the present virtual hosts. One that
  // does not exist is forgotten.
  async refresh() {
    try {
      this.show(await vhostNames());
    } catch (error) {
      // The page itself tells that the node does not answer, or that the login has ended.
      if (!(error instanceof ApiError)) throw error;
    }
  }

  show(names) {
    const chosen = chosenVhost();
    if (chosen) ofBrowser.set(KEY, names.includes(chosen) ? chosen : "");
    render(this.select, ["", ...names].map((name) =>
      h("option", {value: name, "data-key": `vhost ${name}`}, name || "All")));
    this.select.value = chosenVhost();
  }
}
