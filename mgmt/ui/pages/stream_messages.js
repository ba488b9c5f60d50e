// The messages of a stream: publishing, a look at them from any offset or time, and copying a part.

import {get, path, post} from "../api.js";
import {attempt, notice} from "../dialog.js";
import {facts, fold, h, panel, render} from "../dom.js";
import {button, field, fields, form, input} from "../forms.js";
import {bytes, count, plural, time} from "../format.js";
import {query, setQuery} from "../router.js";
import {requireOtherQueue} from "./destinations.js";
import {bodyOf, publishForm} from "./messages.js";

const POSITION = "an offset, a time, such as 2026-01-31T12:00:00, how long ago, such as 1h, "
  + "first, last or next";
const TRUNCATE_BYTES = 10_000;

export function streamMessages(vhost, name) {
  const look = new Look(vhost, name);
  const element = h("div", {}, panel("Messages", look.element),
    fold("Publish message", publishForm(vhost, name)),
    panel("Copy messages to a queue", copyForm(vhost, name)));
  return {element, refresh: () => look.begin()};
}

// A look at some messages, which stay as they are until the user asks for others.
class Look {
  constructor(vhost, name) {
    this.where = `${path("stream", vhost, name)}/messages`;
    this.found = h("div", {role: "status", class: "found"});
    this.steps = h("div", {class: "pager"});
    const asked = query();
    this.from = input("from", {value: asked.from ?? "first", required: true});
    this.count = input("count", {type: "number", min: 1, max: 500, value: asked.count ?? 20});
    this.element = h("div", {}, form("Show", () => this.ask(), fields(
      field("From", this.from, POSITION), field("Messages", this.count)),
    h("div", {class: "chips", role: "group", "aria-label": "Often wanted"},
      button("Oldest", () => this.go("first"), {class: "chip"}),
      button("Newest", () => this.go(this.newest()), {class: "chip"}),
      button("An hour ago", () => this.go("1h"), {class: "chip"}))),
    this.found, this.steps);
  }

  // Where the last messages begin. The position `last` is that of a chunk, which may be large.
  newest() {
    return this.end === undefined ? "last" : String(Math.max(0, this.end - this.count.value));
  }

  async begin() {
    if (!this.isBegun) await this.ask();
    this.isBegun = true;
  }

  async go(from) {
    this.from.value = from;
    try {
      await this.ask();
    } catch (error) {
      notice(error.message, true);
    }
  }

  async ask() {
    const [offset, number] = [this.from.value.trim(), this.count.value];
    this.from.removeAttribute("aria-invalid");
    let found;
    try {
      found = await get(this.where, {offset, count: number, truncate: TRUNCATE_BYTES});
    } catch (error) {
      if (error.status !== 400) throw error;
      this.from.setAttribute("aria-invalid", "true");
      render(this.found, h("p", {class: "bad"}, error.message));
      render(this.steps);
      return;
    }
    setQuery({from: offset === "first" ? "" : offset, count: number === "20" ? "" : number});
    this.show(found, Number(number));
  }

  show({messages, next_offset: next, first_offset: first, end_offset: end}, number) {
    const begin = messages[0]?.offset ?? next;
    this.end = end;
    render(this.found, facts({"First offset": end > first ? count(first) : "–",
      "Last offset": end > first ? count(end - 1) : "–", Messages: count(end - first)}),
    messages.length ? messages.map(shown) : h("p", {class: "quiet"}, end > first
      ? "There are no messages from there on." : "The stream has no messages."),
    messages.length > 0 && next - begin > messages.length && h("p", {class: "quiet"},
      `${plural(next - begin - messages.length, "message")} in between cannot be shown: their `
      + "batch has a compression that this node does not know."));
    render(this.steps,
      button("Previous", () => this.go(String(Math.max(first, begin - number))),
        {disabled: begin <= first}),
      button("Next", () => this.go(String(next)), {disabled: next >= end}));
  }
}

const shown = (message) => h("article", {class: "message", "aria-label": `Offset ${message.offset}`,
  "data-key": `offset ${message.offset}`},
h("p", {}, h("b", {}, `Offset ${count(message.offset)}`), `, ${time(message.time_ms)}: `,
  message.exchange && `exchange ${message.exchange}, `, "routing key ",
  h("code", {}, message.routing_key), `, ${bytes(message.payload_bytes)}`),
bodyOf(message));

function copyForm(vhost, name) {
  const state = h("p", {role: "status"});
  return h("div", {}, form("Copy", async ({queue, from, to}) => {
    await requireOtherQueue(vhost, queue, name);
    await attempt(`Messages copied to ${queue}`,
      () => copy(path("stream", vhost, name), {queue, from, to}, state));
  }, h("p", {class: "quiet"}, "The messages stay in the stream. The copy ends if you leave the "
    + "page."),
  fields(field("From position", input("from", {value: "first", required: true}), POSITION),
    field("To position", input("to", {value: "next", required: true}), "without this message"),
    field("To queue", input("queue", {required: true})))), state);
}

// Copies part after part. The node says where the next one begins.
async function copy(where, asked, state) {
  let copied = 0;
  let body = {...asked, goes_on: false};
  while (state.isConnected) {
    const part = await post(`${where}/copy`, body);
    copied += part.taken;
    render(state, `${plural(copied, "message")} copied, up to offset ${count(part.next_offset)} of `
      + `${count(part.end)}.`);
    if (part.next_offset >= part.end) return;
    body = {...asked, from: part.next_offset, to: part.end, goes_on: true};
  }
}
