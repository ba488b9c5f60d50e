// Browses and searches the ready messages of a queue without consuming them, all or dead letters
// only, and selects those that message_actions.js retries, moves or deletes.

import {get, path} from "../api.js";
import {h, render, tag, uniqueId} from "../dom.js";
import {button, dangerous, field, fields, form, input, row} from "../forms.js";
import {bytes, count, duration, plural, time} from "../format.js";
import {MessageActions} from "./message_actions.js";
import {bodyOf} from "./messages.js";

const PAGE = 20;
// offset counts messages, for their numbers; position is where the node reads on.
const FIRST_PAGE = {offset: 0, position: ""};

export class Workbench {
  // isOfDeadLetters: only messages that were dead-lettered, which alone can be retried.
  constructor(vhost, queue, {isOfDeadLetters = false} = {}) {
    this.where = `${path("queues", vhost, queue)}/messages`;
    this.actions = new MessageActions(vhost, queue, () => this.load());
    this.isOfDeadLetters = isOfDeadLetters;
    this.filters = {header: "", body: "", routing_key: ""};
    this.chosen = new Set();
    this.found = null;
    // Where the pages so far begin: the last one is shown.
    this.pages = [FIRST_PAGE];
    this.tools = h("div", {class: "toolbar"});
    this.list = h("div", {}, h("p", {class: "quiet"}, "Loading …"));
    this.element = h("div", {}, this.filterForm(), this.tools, this.list);
  }

  // Loads the first page, once.
  async begin() {
    if (!this.found) await this.load([FIRST_PAGE]);
  }

  filterForm() {
    return form("Search", async ({header, body, key}) => {
      this.filters = {header, body, routing_key: key};
      await this.load([FIRST_PAGE]);
    }, fields(
      field("Header", input("header", {placeholder: "name, or name:regex"})),
      field("Body matches", input("body", {placeholder: "regex"})),
      field("Routing key matches", input("key", {placeholder: "regex"}))));
  }

  // The filters as the API has them.
  query() {
    const {header, ...others} = this.filters;
    return {...others, header: [this.isOfDeadLetters && "x-death", header].filter(Boolean)};
  }

  // The filters as the user has typed them.
  said() {
    const {header, body, routing_key: key} = this.filters;
    return [this.isOfDeadLetters && "dead letters", header && `header ${header}`,
      body && `body ${body}`, key && `routing key ${key}`].filter(Boolean).join(", ");
  }

  async load(pages = this.pages) {
    this.pages = pages;
    this.chosen.clear();
    try {
      this.found = await get(this.where, {...pages.at(-1), count: PAGE, ...this.query()});
      this.draw();
    } catch (error) {
      render(this.tools);
      render(this.list, h("p", {class: "bad"}, error.message));
    }
  }

  draw() {
    const {messages} = this.found;
    this.drawTools();
    const nothing = this.isOfDeadLetters && this.said() === "dead letters"
      ? "No dead letters." : this.said() ? "No matching messages." : "No ready messages.";
    render(this.list, messages.map((message) => this.view(message)),
      messages.length === 0 && h("p", {class: "quiet"}, nothing), this.limitNote(), this.pager());
  }

  // Actions, and their numbers of messages.

  drawTools() {
    const {messages, total} = this.found;
    const all = this.said() ? "all matching" : "all";
    const id = this.allId ??= uniqueId("all");
    // The handler moves to the box that is shown (dom.js).
    const every = h("input", {type: "checkbox", id,
      onchange: ({target}) => this.selectAll(target.checked)});
    const none = this.chosen.size === 0;
    const {actions} = this;
    const retry = (text, choice, attributes) => this.isOfDeadLetters
      && button(text, () => actions.act("retry", choice()), attributes);
    const selected = () => this.selection();
    const everything = () => this.everything();
    render(this.tools, total > 0 && [
      row(every, h("label", {for: id}, "Select all shown"),
        h("span", {class: "quiet", role: "status"}, `${this.chosen.size} selected, `
          + `${messages.length} shown, ${plural(total, "message")} ready in the queue`)),
      row(retry("Retry selected", selected, {disabled: none}),
        button("Move selected", () => actions.askWhere(selected()), {disabled: none}),
        dangerous("Delete selected", () => actions.act("delete", selected()), {disabled: none}),
        retry(`Retry ${all}`, everything),
        button(`Move ${all}`, () => actions.askWhere(everything())),
        dangerous(`Delete ${all}`, () => actions.act("delete", everything())))]);
    const box = document.getElementById(id);
    if (box) box.checked = messages.length > 0 && this.chosen.size === messages.length;
  }

  selection(ids = [...this.chosen]) {
    return {body: {ids}, filter: ""};
  }

  everything() {
    return {body: {all: true, ...this.query()}, filter: this.said()};
  }

  selectAll(isChosen) {
    this.chosen = new Set(isChosen ? this.found.messages.map((message) => message.id) : []);
    for (const box of this.list.querySelectorAll("input[type=checkbox]")) box.checked = isChosen;
    this.drawTools();
  }

  // A search reads a limited number of messages at once.
  limitNote() {
    const {messages, scanned, next_position: position} = this.found;
    if (position === null || messages.length === PAGE) return "";
    return h("p", {class: "warn", role: "status"},
      `The search stopped after ${plural(scanned, "message")}, of which `
      + `${count(messages.length)} matched. "Next" searches on from there.`);
  }

  pager() {
    const {next_offset: offset, next_position: position, scanned} = this.found;
    const isFirst = this.pages.length === 1;
    if (isFirst && position === null) return "";
    const first = this.pages.at(-1).offset;
    return h("div", {class: "pager"},
      button("Back", () => this.load(this.pages.slice(0, -1)), {disabled: isFirst}),
      button("Next", () => this.load([...this.pages, {offset, position}]),
        {disabled: position === null}),
      h("span", {}, `messages ${count(first + 1)} to ${count(first + scanned)} searched`));
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
    return h("article", {class: "message", "data-key": uniqueId("shown"), "aria-label": name},
      h("div", {class: "row"}, box,
        h("label", {for: id}, h("b", {}, `#${message.position + 1}`),
          ` exchange ${message.exchange || "(default)"}, routing key `,
          h("code", {}, message.routing_key)),
        h("span", {class: "quiet"},
          `${bytes(message.payload_bytes)}, age ${duration(message.age_ms)}`),
        message.redelivered && tag("redelivered"), this.buttons(message, name)),
      deaths(message.deaths), bodyOf(message));
  }

  buttons(message, name) {
    const act = (action) => () => this.actions.act(action, this.selection([message.id]));
    return h("span", {class: "row end"}, this.isOfDeadLetters && [
      button("Retry", act("retry"), {"aria-label": `Retry ${name}`}),
      button("Edit and retry", () => this.actions.edit(message),
        {"aria-label": `Edit and retry ${name}`})],
    dangerous("Delete", act("delete"), {"aria-label": `Delete ${name}`}));
  }
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
