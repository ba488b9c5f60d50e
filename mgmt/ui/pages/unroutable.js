// The messages of a virtual host that reached no queue: counts by exchange and key prefix, the last
// messages, and a button that forgets both.

import {del, get, path} from "../api.js";
import {exchangeLink} from "../declared.js";
import {attempt} from "../dialog.js";
import {code, h, render} from "../dom.js";
import {button} from "../forms.js";
import {bytes, count, time} from "../format.js";
import {refreshNow} from "../live.js";
import {List} from "../table.js";

const SHOWN_MAX = 100;
const SHOWN_BYTES_MAX = 1000;

export class Unroutable {
  constructor(vhost) {
    this.vhost = vhost;
    this.where = path("unroutable", vhost);
    this.found = {counts: [], items: []};
    this.forgetting = h("p", {});
    this.lists = [this.counts(), this.messages()];
    this.element = h("div", {}, this.lists.map((list) => list.element), this.forgetting);
  }

  async refresh() {
    this.found = await get(this.where, {count: SHOWN_MAX, truncate: SHOWN_BYTES_MAX});
    await Promise.all(this.lists.map((list) => list.refresh()));
    render(this.forgetting, this.found.messages ? button("Forget these", () => this.forget()) : "");
  }

  async forget() {
    if (await attempt("Unroutable messages forgotten", () => del(this.where))) refreshNow();
  }

  counts() {
    return new List({id: "unroutable-counts", caption: "By exchange and key prefix", small: true,
      load: () => this.found.counts, key: (row) => `${row.exchange}\n${row.prefix}`,
      empty: "Every message has reached a queue.",
      columns: [
        {key: "exchange", title: "Exchange", cell: (row) => exchangeLink(this.vhost, row.exchange)},
        {key: "prefix", title: "Keys that begin with", cell: (row) => code(row.prefix)},
        {key: "messages", title: "Messages", number: true, cell: (row) => count(row.messages)},
        {key: "returned", title: "Returned", number: true, cell: (row) => count(row.returned)},
        {key: "last_ms", title: "Last", cell: (row) => time(row.last_ms)}]});
  }

  messages() {
    return new List({id: "unroutable-messages", caption: "Last messages", small: true,
      load: () => this.found.items.map((one, place) => ({...one, place})),
      key: (row) => String(row.place), empty: "No messages.",
      columns: [
        {key: "time_ms", title: "Time", cell: (row) => time(row.time_ms)},
        {key: "user", title: "User", cell: (row) => row.user || "(dead letter)"},
        {key: "exchange", title: "Exchange", cell: (row) => exchangeLink(this.vhost, row.exchange)},
        {key: "routing_key", title: "Routing key", cell: (row) => code(row.routing_key)},
        {key: "payload_bytes", title: "Size", number: true,
          cell: (row) => bytes(row.payload_bytes)},
        {key: "payload", title: "Payload", sortable: false, wide: true,
          cell: (row) => code(row.payload)}]});
  }
}
