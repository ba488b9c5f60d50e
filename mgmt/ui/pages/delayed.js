// The messages that wait at an exchange of the type x-delayed-message: when they are due, and
// buttons that send them now or cancel them. One without a message id can only be chosen with all.

import {get, post} from "../api.js";
import {attempt, confirm} from "../dialog.js";
import {code, h, render} from "../dom.js";
import {button, dangerous} from "../forms.js";
import {bytes, count, time} from "../format.js";
import {refreshNow} from "../live.js";
import {List} from "../table.js";

const SHOWN_MAX = 100;
const SHOWN_BYTES_MAX = 1000;

export class Delayed {
  constructor(where) {
    this.where = `${where}/delayed`;
    this.found = {messages: 0, items: []};
    this.summary = h("p", {});
    this.list = this.messages();
    this.element = h("div", {}, this.list.element, this.summary);
  }

  async refresh() {
    this.found = await get(this.where, {count: SHOWN_MAX, truncate: SHOWN_BYTES_MAX});
    await this.list.refresh();
    const {messages, items} = this.found;
    render(this.summary, messages === 0 ? "" : [
      items.length < messages ? `The first ${count(items.length)} of ${count(messages)}. ` : "",
      button("Send all now", () => this.act("send", {all: true}, "All messages sent")), " ",
      dangerous("Cancel all", () => this.cancel({all: true}, `all ${count(messages)} messages`))]);
  }

  async act(name, chosen, done) {
    if (await attempt(done, () => post(`${this.where}/${name}`, chosen))) refreshNow();
  }

  async cancel(chosen, what) {
    const detail = "Cancelled messages are dropped: they reach no queue.";
    if (await confirm(`Cancel ${what}?`, detail, "Cancel messages")) {
      await this.act("cancel", chosen, "Messages cancelled");
    }
  }

  actions({properties}) {
    const id = properties.message_id;
    if (!id) return "";
    const chosen = {message_ids: [id]};
    return [button("Send now", () => this.act("send", chosen, `Message ${id} sent`)), " ",
      dangerous("Cancel", () => this.cancel(chosen, `message ${id}`))];
  }

  messages() {
    return new List({id: "delayed-messages", caption: "Next due", small: true,
      load: () => this.found.items.map((one, place) => ({...one, place})),
      key: (row) => String(row.place), empty: "No messages wait.",
      columns: [
        {key: "due_ms", title: "Due", cell: (row) => time(row.due_ms)},
        {key: "message_id", title: "Message id", sortable: false,
          cell: (row) => code(row.properties.message_id ?? "")},
        {key: "routing_key", title: "Routing key", cell: (row) => code(row.routing_key)},
        {key: "payload_bytes", title: "Size", number: true,
          cell: (row) => bytes(row.payload_bytes)},
        {key: "payload", title: "Payload", sortable: false, wide: true,
          cell: (row) => code(row.payload)},
        {key: "actions", title: "", sortable: false, cell: (row) => this.actions(row)}]});
  }
}
