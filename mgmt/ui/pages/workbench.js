// The message workbench of a queue: browse and search messages without consuming them, see why they
// were dead-lettered, and retry, edit, move or delete single, selected or all matching ones.

import {get, path, post} from "../api.js";
import {confirm, notice, openForm} from "../dialog.js";
import {h, render, tag, uniqueId} from "../dom.js";
import {button, dangerous, field, fields, form, input, row} from "../forms.js";
import {bytes, duration, plural, time} from "../format.js";
import {refreshNow} from "../live.js";
import {edit} from "./edit.js";
import {bodyOf} from "./messages.js";

const PAGE = 20;
// offset counts messages, for their numbers; position is where the node reads on.
const FIRST_PAGE = {offset: 0, position: ""};
const WORDS = {
  retry: ["Retry", "Retried", "They are published as listed here, and removed from this queue."],
  move: ["Move", "Moved", "They are removed from this queue."],
  delete: ["Delete", "Deleted", "They are deleted permanently."],
};

export function workbench(vhost, queue) {
  const bench = new Workbench(vhost, queue);
  bench.load([FIRST_PAGE]);
  return bench.element;
}

class Workbench {
  constructor(vhost, queue) {
    this.queue = queue;
    this.where = `${path("queues", vhost, queue)}/messages`;
    this.filters = {};
    this.chosen = new Set();
    this.found = {messages: [], total: 0, scanned: 0, next_offset: null};
    // Where the pages so far begin: the last one is shown.
    this.pages = [FIRST_PAGE];
    this.tools = h("div", {class: "toolbar"});
    this.list = h("div");
    this.element = h("div", {}, this.filterForm(), this.tools, this.list);
  }

  filterForm() {
    return form("Search", async ({header, body, key}) => {
      this.filters = {header, body, routing_key: key};
      await this.load([FIRST_PAGE]);
    }, fields(
      field("Header", input("header", {placeholder: "name, or name:pattern"})),
      field("Body matches", input("body", {placeholder: "regular expression"})),
      field("Routing key matches", input("key", {placeholder: "regular expression"}))));
  }

  async load(pages = this.pages) {
    this.pages = pages;
    this.chosen.clear();
    try {
      this.found = await get(this.where, {...pages.at(-1), count: PAGE, ...this.filters});
      this.draw();
    } catch (error) {
      render(this.tools);
      render(this.list, h("p", {class: "bad"}, error.message));
    }
  }

  draw() {
    const {messages} = this.found;
    this.drawTools();
    render(this.list, messages.map((message) => this.view(message)),
      messages.length === 0 && h("p", {class: "quiet"}, "No matching messages."), this.pager());
  }

  // Actions, and their numbers of messages.

  drawTools() {
    const {messages, total} = this.found;
    const isFiltered = Object.values(this.filters).some(Boolean);
    const all = isFiltered ? "all matching" : "all";
    const id = this.allId ??= uniqueId("all");
    const every = h("input", {type: "checkbox", id, onchange: () => this.selectAll(every.checked)});
    const none = this.chosen.size === 0;
    render(this.tools, total > 0 && [
      row(every, h("label", {for: id}, "Select all shown"),
        h("span", {class: "quiet", role: "status"}, `${this.chosen.size} selected, `
          + `${messages.length} shown, ${plural(total, "message")} ready in the queue`)),
      row(button("Retry selected", () => this.act("retry", this.selection()), {disabled: none}),
        button("Move selected", () => this.askWhere(this.selection()), {disabled: none}),
        dangerous("Delete selected", () => this.act("delete", this.selection()), {disabled: none}),
        button(`Retry ${all}`, () => this.act("retry", this.everything())),
        button(`Move ${all}`, () => this.askWhere(this.everything())),
        dangerous(`Delete ${all}`, () => this.act("delete", this.everything())))]);
    const box = document.getElementById(id);
    if (box) box.checked = messages.length > 0 && this.chosen.size === messages.length;
  }

  selectAll(isChosen) {
    this.chosen = new Set(isChosen ? this.found.messages.map((message) => message.id) : []);
    for (const box of this.list.querySelectorAll("input[type=checkbox]")) box.checked = isChosen;
    this.drawTools();
  }

  pager() {
    const {next_offset: offset, next_position: position, scanned} = this.found;
    const isFirst = this.pages.length === 1;
    if (isFirst && position === null) return "";
    return h("div", {class: "pager"},
      button("Back", () => this.load(this.pages.slice(0, -1)), {disabled: isFirst}),
      button("Next", () => this.load([...this.pages, {offset, position}]),
        {disabled: position === null}),
      h("span", {}, `from position ${this.pages.at(-1).offset + 1}, `
        + `${plural(scanned, "message")} searched`));
  }

  // Actions

  selection() {
    return {ids: [...this.chosen]};
  }

  everything() {
    const {header, ...others} = this.filters;
    return {all: true, ...others, ...(header ? {header: [header]} : {})};
  }

  // Returns whether it succeeded.
  async act(action, body) {
    const [word, done, consequence] = WORDS[action];
    const which = body.ids ? plural(body.ids.length, "message")
      : Object.values(this.filters).some(Boolean) ? "all matching messages" : "all messages";
    const target = body.destination ? ` Destination: ${body.destination}.` : "";
    const detail = `${which} of ${this.queue}. ${consequence}${target}`;
    let isDone = false;
    try {
      const more = action === "retry" && !body.to ? await this.targets(body) : {shown: []};
      if (!body.edit && !await confirm(`${word} ${which}?`, detail, word, ...more.shown)) {
        return false;
      }
      isDone = report(done, await post(`${this.where}/${action}`, {...body, ...more.confirmed}));
    } catch (error) {
      notice(`Failed: ${error.message}`, true);
    }
    await this.load();
    refreshNow();
    return isDone;
  }

  // Where a retry would publish messages, to be confirmed: x-death, which says it, may be forged.
  async targets(body) {
    const {targets, has_more: hasMore} = await post(`${this.where}/targets`, body);
    const list = h("ul", {"aria-label": "Targets"}, targets.map(({messages, ...target}) =>
      h("li", {}, `${plural(messages, "message")} to ${describe(target)}`)));
    const note = hasMore && h("p", {}, "Messages with more targets than these stay in the queue.");
    return {shown: [list, note || ""], confirmed: {targets}};
  }

  askWhere(body) {
    const dialog = openForm("Move to queue", form("Continue", async ({destination}) => {
      dialog.close();
      await this.act("move", {...body, destination});
    }, field("Queue", input("destination", {required: true}))));
  }

  // A single message

  view(message) {
    const id = uniqueId("message");
    const box = h("input", {type: "checkbox", id, onchange: () => {
      if (box.checked) this.chosen.add(message.id);
      else this.chosen.delete(message.id);
      this.drawTools();
    }});
    const name = `message ${message.position + 1}`;
    const act = (action) => () => this.act(action, {ids: [message.id]});
    return h("article", {class: "message", "data-key": uniqueId("shown"), "aria-label": name},
      h("div", {class: "row"}, box,
        h("label", {for: id}, h("b", {}, `#${message.position + 1}`),
          ` exchange ${message.exchange || "(default)"}, routing key `,
          h("code", {}, message.routing_key)),
        h("span", {class: "quiet"},
          `${bytes(message.payload_bytes)}, age ${duration(message.age_ms)}`),
        message.redelivered && tag("redelivered"),
        h("span", {class: "row end"},
          button("Retry", act("retry"), {"aria-label": `Retry ${name}`}),
          button("Edit and retry", () => this.edit(message),
            {"aria-label": `Edit and retry ${name}`}),
          dangerous("Delete", act("delete"), {"aria-label": `Delete ${name}`}))),
      deaths(message.deaths), bodyOf(message));
  }

  async edit(message) {
    try {
      // Editing needs the complete payload: a truncated one would be published as it is.
      const {messages: [whole]} = await get(this.where,
        {position: message.id, count: 1, truncate: message.payload_bytes});
      if (whole?.id !== message.id) {
        throw new Error("The message is no longer in the queue: search again.");
      }
      const {targets: [target]} = await post(`${this.where}/targets`, {ids: [whole.id]});
      edit(whole, target, (body) => this.act("retry", body));
    } catch (error) {
      notice(error.message, true);
    }
  }
}

function describe({exchange, routing_keys: keys}) {
  return `exchange ${exchange || "(default)"} with routing key ${keys.join(", ")}`;
}

// Reports the result; returns whether all succeeded.
function report(did, {done, failed}) {
  if (!failed.length) {
    notice(`${did} ${plural(done, "message")}`);
    return true;
  }
  const reasons = [...new Set(failed.map((one) => one.reason))].join("; ");
  notice(`${did} ${plural(done, "message")}; ${plural(failed.length, "message")} failed: ${reasons}`,
    true);
  return false;
}

// x-death as a timeline, the first death first.
function deaths(found) {
  if (!found.length) return "";
  const first = [...found].reverse();
  return h("ol", {class: "timeline", "aria-label": "Deaths"}, first.map((death) =>
    h("li", {}, h("b", {}, death.reason ?? "dead-lettered"), ` in queue ${death.queue}`,
      death.count > 1 ? ` ${death.count} times, first` : "",
      death.time ? ` ${time(death.time * 1000)}` : "",
      h("div", {class: "quiet"}, `exchange ${death.exchange || "(default)"}, routing `
        + `keys ${death.routing_keys.join(", ")}`,
      death.original_expiration ? `; original expiration ${death.original_expiration} ms` : ""))));
}
