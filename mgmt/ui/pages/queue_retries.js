// Delayed retries: the messages of a queue that wait, with buttons that deliver them now or
// discard them. The panel is empty while no message waits.

import {get, path, post} from "../api.js";
import {attempt, confirm} from "../dialog.js";
import {code, h, panel, render} from "../dom.js";
import {button, dangerous, row} from "../forms.js";
import {bytes, count, plural, time} from "../format.js";
import {refreshNow} from "../live.js";
import {List} from "../table.js";

const SHOWN_MAX = 100;

export class Retries {
  constructor(vhost, name) {
    this.where = path("queues", vhost, name, "retries");
    this.found = {messages: 0, items: []};
    this.element = h("div");
    this.list = new List({id: "delayed-retries", caption: "Delayed retries", small: true,
      load: () => this.found.items, key: (one) => String(one.position), empty: "None.",
      columns: [
        {key: "due_at", title: "Next delivery", cell: (one) => time(one.due_at)},
        {key: "returns", title: "Returns", number: true, cell: (one) => count(one.returns)},
        {key: "message_id", title: "Message id", sortable: false,
          cell: (one) => code(one.properties.message_id ?? "")},
        {key: "routing_key", title: "Routing key", cell: (one) => code(one.routing_key)},
        {key: "payload_bytes", title: "Size", number: true,
          cell: (one) => bytes(one.payload_bytes)},
        {key: "position", title: "", sortable: false, cell: (one) => row(
          button("Deliver now", () => this.deliver({positions: [one.position]})),
          dangerous("Discard", () => this.discard({positions: [one.position]}, 1)))}]});
    this.panel = panel("Delayed retries", this.list.element, row(
      button("Deliver all now", () => this.deliver({all: true})),
      dangerous("Discard all", () => this.discard({all: true}, this.found.messages))));
  }

  // waiting: how many messages wait; undefined for a queue that has no delayed retries.
  async refresh(waiting) {
    if (!waiting) {
      render(this.element);
      return;
    }
    this.found = await get(this.where, {count: SHOWN_MAX});
    render(this.element, this.panel);
    await this.list.refresh();
  }

  async deliver(chosen) {
    if (await attempt("Delivered", () => post(`${this.where}/deliver`, chosen))) refreshNow();
  }

  async discard(chosen, number) {
    const detail = `${plural(number, "message")} will be deleted, and not dead-lettered.`;
    if (!await confirm("Discard delayed retries?", detail, "Discard")) return;
    if (await attempt("Discarded", () => post(`${this.where}/discard`, chosen))) refreshNow();
  }
}
