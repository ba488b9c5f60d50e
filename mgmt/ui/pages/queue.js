// A queue's page in parts, each with an address of its own: queues/VHOST/NAME/PART.

import {h} from "../dom.js";
import {route, to} from "../router.js";
import {bindingsPart} from "./queue_bindings.js";
import {consumersPart} from "./queue_consumers.js";
import {deadLettersPart} from "./queue_dead_letters.js";
import {messagesPart} from "./queue_messages.js";
import {overviewPart} from "./queue_overview.js";

// The part in the address, its title, and show(vhost, name), which makes {element, refresh}.
const PARTS = [["", "Overview", overviewPart], ["messages", "Messages", messagesPart],
  ["consumers", "Consumers", consumersPart], ["bindings", "Bindings", bindingsPart],
  ["dead-letters", "Dead letters", deadLettersPart]];

const addressOf = (...parts) => parts.filter((part) => part !== "");

for (const [part, , show] of PARTS) {
  route(addressOf("queues/:vhost/:name", part).join("/"), ({vhost, name}) => {
    const {element, refresh} = show(vhost, name);
    return {title: `Queue ${name}`, refresh,
      element: h("div", {}, tabs(vhost, name, part), element)};
  });
}

function tabs(vhost, name, chosen) {
  return h("nav", {class: "tabs", "aria-label": "Parts of the queue's page"},
    PARTS.map(([part, title]) => h("a", {"aria-current": part === chosen ? "page" : undefined,
      href: part ? to("queues", vhost, name, part) : to("queues", vhost, name)}, title)));
}
