// The workbench of a queue: look at its messages without taking them, search, see how they died, and
// retry, edit, move or delete them.

import {get, path, post} from "./api.js";
import {attempt, confirm, notice, open} from "./dialog.js";
import {field, form, h, input, replace, uniqueId} from "./dom.js";
import {refreshNow} from "./exchanges.js";
import {bytes, duration, json, time} from "./format.js";
import {messageFields, object} from "./inputs.js";

const PAGE = 20;

export function workbench(vhost, name) {
  const where = `${path("queues", vhost, name)}/messages`;
  const list = h("div");
  const state = {chosen: new Set(), filters: {}, offset: 0, known: []};

  async function load(offset = 0) {
    state.offset = offset;
    state.chosen.clear();
    try {
      const found = await get(where, {offset, count: PAGE, ...state.filters});
      state.known = found.messages;
      draw(found);
    } catch (error) {
      notice(error.message, true);
    }
  }

  function draw(found) {
    replace(list, h("p", {class: "quiet"}, `${found.messages.length} shown, ${found.total} in the queue`),
      found.messages.map((message) => messageView(message, state.chosen, act)),
      found.messages.length ? h("div", {class: "row"},
        h("button", {type: "button", onclick: () => act("retry", selection())}, "Retry selected"),
        h("button", {type: "button", onclick: () => act("retry", everything())}, "Retry all that match"),
        h("button", {type: "button", onclick: () => moveTo(selection())}, "Move selected"),
        h("button", {type: "button", class: "danger", onclick: () => act("delete", selection())}, "Delete selected")) : "",
      found.next_offset !== null ? h("button", {type: "button", onclick: () => load(found.next_offset)}, "Further on") : "");
  }

  const selection = () => ({ids: [...state.chosen]});
  const everything = () => ({all: true, ...state.filters, header: state.filters.header ? [state.filters.header] : []});

  async function act(action, body) {
    if (body.ids && !body.ids.length) {
      notice("No message is selected.", true);
      return false;
    }
    const what = body.all ? "all messages that match" : `${body.ids.length} message${body.ids.length > 1 ? "s" : ""}`;
    if (!body.edit && !await confirm(`${action === "retry" ? "Retry" : action === "move" ? "Move" : "Delete"} ${what}?`,
      {retry: "They go back to where they came from, and out of this queue.", move: `They go to ${body.destination}.`,
        delete: "They will be gone."}[action], action === "delete" ? "Delete" : "Go on")) return false;
    let done = null;
    const well = await attempt("Done", async () => {
      done = await post(`${where}/${action}`, body);
      if (done.failed.length) throw new Error(`${done.done} done; ${done.failed.length} not: ${done.failed[0].reason}`);
    });
    await load(state.offset);
    refreshNow();
    return well;
  }

  function moveTo(body) {
    const dialog = open("Move to which queue?", form("Move", async (values) => {
      dialog.close();
      await act("move", {...body, destination: values.destination});
    }, field("Queue", input("destination", {required: true}))));
  }

  const filters = form("Look", async (values) => {
    state.filters = {header: values.header, body: values.body, routing_key: values.key};
    await load();
  }, h("div", {class: "fields"}, field("Header", input("header", {placeholder: "name or name:pattern"})),
    field("Body matches", input("body")), field("Routing key matches", input("key"))));
  return h("div", {}, filters, list);
}

function messageView(message, chosen, act) {
  const id = uniqueId("message");
  const box = h("input", {type: "checkbox", id, onchange: () => (box.checked ? chosen.add(message.id) : chosen.delete(message.id))});
  return h("div", {class: "message"},
    h("div", {class: "row"}, box, h("label", {for: id}, h("b", {}, `#${message.position + 1}`),
      ` ${message.exchange || "(default)"} / ${message.routing_key}, ${bytes(message.payload_bytes)}, ${duration(message.age_ms)} old`),
    message.redelivered ? h("span", {class: "tag"}, "redelivered") : "",
    h("button", {type: "button", onclick: () => act("retry", {ids: [message.id]})}, "Retry"),
    h("button", {type: "button", onclick: () => edit(message, act)}, "Edit and retry")),
    deaths(message), h("details", {}, h("summary", {}, "Properties"), h("pre", {}, json(message.properties))),
    h("pre", {}, message.payload), message.truncated ? h("p", {class: "quiet"}, "The payload is cut here.") : "");
}

// x-death as a timeline, the first death first.
function deaths(message) {
  if (!message.deaths.length) return "";
  return h("ol", {class: "timeline", "aria-label": "How it died"}, [...message.deaths].reverse().map((death) => h("li", {},
    h("b", {}, death.reason), ` in ${death.queue}`, death.count > 1 ? ` ${death.count} times, first` : "",
    death.time ? ` ${time(death.time * 1000)}` : "", h("div", {class: "quiet"},
      `published to ${death.exchange || "(default)"} with ${death.routing_keys.join(", ")}`))));
}

function edit(message, act) {
  const properties = Array.isArray(message.properties) ? {} : message.properties;
  const dialog = open("Edit and retry", form("Retry with these changes", async (values) => {
    try {
      const changed = {payload: values.payload, payload_encoding: values.encoding, properties: object(values.properties, "The properties")};
      const body = {ids: [message.id], edit: changed};
      if (values.exchange || values.key) body.to = {exchange: values.exchange, routing_key: values.key};
      if (await act("retry", body)) dialog.close();
    } catch (error) {
      notice(error.message, true);
    }
  }, h("p", {class: "quiet"}, "Without an exchange and a routing key it goes to where it came from."),
  h("div", {class: "fields"}, field("Exchange", input("exchange")), field("Routing key", input("key"))),
  messageFields(properties, message.payload, message.payload_encoding)));
}
