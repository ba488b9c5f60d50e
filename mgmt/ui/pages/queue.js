// A queue's page in parts, each with an address of its own: queues/VHOST/NAME/PART.
//
// Streams have other parts than other queues: the type of a queue is asked for first.

import {get, path} from "../api.js";
import {h, render, replace} from "../dom.js";
import {route, to} from "../router.js";
import {bindingsPart} from "./queue_bindings.js";
import {consumersPart} from "./queue_consumers.js";
import {deadLettersPart} from "./queue_dead_letters.js";
import {messagesPart} from "./queue_messages.js";
import {overviewPart} from "./queue_overview.js";
import {streamClients} from "./stream_clients.js";
import {streamMessages} from "./stream_messages.js";
import {streamOverview} from "./stream_overview.js";

// The part in the address, its title, show(vhost, name), which makes {element, refresh}, and the
// same for streams, unless they do not have the part.
const PARTS = [["", "Overview", overviewPart, streamOverview],
  ["messages", "Messages", messagesPart, streamMessages],
  ["consumers", "Consumers", consumersPart, streamClients],
  ["bindings", "Bindings", bindingsPart, bindingsPart],
  ["dead-letters", "Dead letters", deadLettersPart]];

const addressOf = (...parts) => parts.filter((part) => part !== "");

for (const [part, , ofQueue, ofStream] of PARTS) {
  route(addressOf("queues/:vhost/:name", part).join("/"), ({vhost, name}) => {
    const [places, content] = [h("div"), h("div")];
    let shown;
    return {title: `Queue ${name}`, element: h("div", {}, places, content),
      async refresh() {
        if (!shown) {
          const {type} = await get(path("queues", vhost, name), {columns: "type"});
          shown = (type === "stream" && ofStream ? ofStream : ofQueue)(vhost, name);
          render(places, tabs(vhost, name, part, type));
          replace(content, shown.element);
        }
        await shown.refresh();
      }};
  });
}

function tabs(vhost, name, chosen, type) {
  const parts = PARTS.filter(([, , , ofStream]) => type !== "stream" || ofStream);
  return h("nav", {class: "tabs", "aria-label": "Parts of the queue's page"},
    parts.map(([part, title]) => h("a", {"aria-current": part === chosen ? "page" : undefined,
      href: part ? to("queues", vhost, name, part) : to("queues", vhost, name)}, title)));
}
