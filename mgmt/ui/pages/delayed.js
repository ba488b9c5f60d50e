// The messages that wait at an exchange of the type x-delayed-message: when they are due, a search
// by message id, header and routing key, and buttons that send messages now or cancel them. A
// search reads all messages, so a refresh does not repeat it. A message without an id has no
// buttons of its own.

import {get, post} from "../api.js";
import {attempt, confirm} from "../dialog.js";
import {code, h, render} from "../dom.js";
import {button, dangerous, field, fields, form, input, row} from "../forms.js";
import {bytes, count, plural, time} from "../format.js";
import {refreshNow} from "../live.js";
import {List} from "../table.js";

const SHOWN_MAX = 100;
const SHOWN_BYTES_MAX = 1000;

export class Delayed {
  constructor(where) {
    this.where = `${where}/delayed`;
    this.found = {messages: 0, matching: 0, items: []};
    this.sought = {};
    this.isCurrent = false;
    this.summary = h("p", {role: "status"});
    this.acts = h("div", {});
    this.list = this.messages();
    this.element = h("div", {}, this.search(), this.list.element, this.summary, this.acts);
  }

  search() {
    return form("Search", (values) => {
      this.sought = chosenBy(values);
      return this.load();
    }, fields(field("Message id", input("message_id")),
      field("Header", input("header"), "name or name:regular expression"),
      field("Routing key matches", input("routing_key"))));
  }

  get isSearch() {
    return Object.keys(this.sought).length > 0;
  }

  async refresh() {
    if (!this.isSearch || !this.isCurrent) await this.load();
  }

  async load() {
    const {message_ids: ids = [], ...others} = this.sought;
    this.found = await get(this.where, {...others, ...ids.length && {message_id: ids[0]},
      count: SHOWN_MAX, truncate: SHOWN_BYTES_MAX});
    this.isCurrent = true;
    await this.list.refresh();
    const {messages, matching, items} = this.found;
    const found = `${count(matching)} found among ${count(messages)}`;
    const of = this.isSearch ? found : count(matching);
    render(this.summary, items.length < matching
      ? `The first ${count(items.length)} of ${of}.` : this.isSearch && `${of}.`);
    render(this.acts, matching > 0 && this.buttons(matching));
  }

  // Acts on all that were found. More may have arrived since.
  buttons(matching) {
    const which = this.isSearch ? "found" : "all";
    const chosen = this.isSearch ? this.sought : {all: true};
    return row(
      button(`Send ${which} now`, () => this.act("send", chosen, "Messages sent")),
      dangerous(`Cancel ${which}`,
        () => this.cancel(chosen, `${which} ${plural(matching, "message")}`)));
  }

  async act(name, chosen, done) {
    const isDone = await attempt(done, () => post(`${this.where}/${name}`, chosen));
    this.isCurrent = false;
    if (isDone) refreshNow();
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
      key: (one) => String(one.place), empty: "No messages wait.",
      columns: [
        {key: "due_ms", title: "Due", cell: (one) => time(one.due_ms)},
        {key: "message_id", title: "Message id", sortable: false,
          cell: (one) => code(one.properties.message_id ?? "")},
        {key: "routing_key", title: "Routing key", cell: (one) => code(one.routing_key)},
        {key: "payload_bytes", title: "Size", number: true,
          cell: (one) => bytes(one.payload_bytes)},
        {key: "payload", title: "Payload", sortable: false, wide: true,
          cell: (one) => code(one.payload)},
        {key: "actions", title: "", sortable: false, cell: (one) => this.actions(one)}]});
  }
}

// The filters of a search, as a request names them; those that are empty are left out.
function chosenBy({message_id: id, header, routing_key: key}) {
  return {...id && {message_ids: [id]}, ...header && {header}, ...key && {routing_key: key}};
}
