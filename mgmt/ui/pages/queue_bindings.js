// The bindings of a queue, and adding one.

import {path} from "../api.js";
import {bindToForm, bindingList} from "../declared.js";
import {fold, h, panel} from "../dom.js";

export function bindingsPart(vhost, name) {
  const where = path("queues", vhost, name);
  const list = bindingList("bindings", `${where}/bindings`);
  return {refresh: () => list.refresh(), element: h("div", {}, panel("Bindings", list.element),
    fold("Add binding to this queue", bindToForm(vhost, name)))};
}
