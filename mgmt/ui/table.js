// Lists with sorting, filter, paging and refresh.
//
// A column is {key, title, number, wide, minor, isExtra, cell(row)}; its key may be a path into the
// row, `message_stats.ack`; `sortable: false` disables sorting; a minor column is hidden on phones,
// since the row's own page shows it; an extra one is hidden until the user chooses it. A remote
// list requests single pages from the API, with only the needed columns; a local one loads all rows
// and pages them here. The state of a list is part of the address, prefixed by the list's id if a
// page has several lists.

import {get, path} from "./api.js";
import {ColumnChoice} from "./columns.js";
import {frame, h, render, uniqueId} from "./dom.js";
import {notice} from "./dialog.js";
import {button, select} from "./forms.js";
import {plural} from "./format.js";
import {query, setQuery} from "./router.js";
import {chosenVhost} from "./vhost_choice.js";

const SIZE = "100";
const SIZES = ["25", SIZE, "500"];
const TYPING_MS = 200;
const FEW = 10;

export class List {
  // load(vhost): all rows of a local list. where(vhost): the API path of a remote list. needs:
  // fields that cells of a remote list use besides the columns' keys. vhosts: lists objects of the
  // chosen virtual host. small: has no choice of columns, and no controls while there are few rows.
  constructor({id = "", caption, columns, key, where, needs = [], load, vhosts, small, empty}) {
    Object.assign(this, {id, caption, columns, key, where, needs, load, vhosts, small});
    this.empty = empty ?? "No rows.";
    this.state = this.fromAddress();
    this.columnChoice = new ColumnChoice(caption, columns, () => this.change({}));
    this.asked = 0;
    if (vhosts) setQuery({vhost: chosenVhost()});
    this.element = this.build();
  }

  name(key) {
    return this.id ? `${this.id}-${key}` : key;
  }

  fromAddress() {
    const asked = query();
    const value = (key) => asked[this.name(key)];
    return {
      page: Math.max(1, Number(value("page")) || 1),
      size: SIZES.includes(value("size")) ? value("size") : SIZE,
      name: value("name") ?? "", regex: value("regex") === "true",
      sort: value("sort") ?? "", reverse: value("reverse") === "true",
    };
  }

  toAddress() {
    const {page, size, name, regex, sort, reverse} = this.state;
    const shown = {page: page > 1 ? page : "", size: size === SIZE ? "" : size, name, sort,
      regex: regex ? "true" : "", reverse: reverse ? "true" : ""};
    setQuery(Object.fromEntries(Object.entries(shown).map(([key, one]) => [this.name(key), one])));
  }

  build() {
    this.controls = h("div", {class: "filters", role: "search", "aria-label": this.caption},
      this.filterControls(), this.sizeControls(),
      this.small ? "" : this.columnChoice.element);
    this.head = h("tr");
    this.body = h("tbody");
    this.message = h("p", {class: "quiet", role: "status"}, "Loading …");
    this.pager = h("div", {class: "pager"});
    const table = h("table", {class: "list"}, h("caption", {class: "unseen"}, this.caption),
      h("thead", {}, this.head), this.body);
    this.drawHead();
    return h("div", {}, this.controls, frame(this.caption, table), this.message, this.pager);
  }

  filterControls() {
    this.filter = h("input", {type: "search", name: "name", autocomplete: "off",
      spellcheck: "false", value: this.state.name, id: uniqueId("filter"),
      oninput: () => this.change({name: this.filter.value, page: 1}, TYPING_MS)});
    const regex = h("input", {type: "checkbox", id: uniqueId("regex"), checked: this.state.regex,
      onchange: () => this.change({regex: regex.checked, page: 1})});
    return [h("label", {for: this.filter.id}, "Filter"), this.filter,
      h("span", {}, regex, " ", h("label", {for: regex.id}, "Regex"))];
  }

  sizeControls() {
    const size = select("size", SIZES, this.state.size);
    size.id = uniqueId("size");
    size.onchange = () => this.change({size: size.value, page: 1});
    return [h("label", {for: size.id}, "Rows per page"), size];
  }

  change(values, delay_ms = 0) {
    Object.assign(this.state, values);
    this.toAddress();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.refresh().catch((error) => notice(error.message, true));
    }, delay_ms);
  }

  async refresh() {
    this.asked += 1;
    const turn = this.asked;
    let found;
    try {
      found = await (this.where ? this.ask() : this.pick());
    } catch (error) {
      this.explain(error);
      return;
    }
    // Ignores an answer that arrives after a newer request.
    if (turn === this.asked) this.draw(found);
  }

  draw({rows, total, pages}) {
    this.rows = rows;
    this.filter.removeAttribute("aria-invalid");
    this.controls.hidden = Boolean(this.small && total <= FEW && !this.state.name);
    this.drawHead();
    render(this.body, rows.map((row) => h("tr", {"data-key": this.key(row)}, this.cells(row))));
    const nothing = this.state.name ? `No rows match the filter '${this.state.name}'.` : this.empty;
    render(this.message, rows.length ? "" : nothing);
    this.message.classList.remove("bad");
    this.drawPager(total, pages);
  }

  // An invalid filter is reported beside the filter; other errors by the page.
  explain(error) {
    const isOfFilter = error instanceof SyntaxError || error.status === 400;
    if (!isOfFilter) throw error;
    if (error.code === "page_out_of_range") {
      this.change({page: 1});
      return;
    }
    this.filter.setAttribute("aria-invalid", "true");
    this.message.classList.add("bad");
    render(this.message, error.message);
  }

  vhost() {
    return this.vhosts ? chosenVhost() : "";
  }

  // Remote lists

  async ask() {
    const {page, size, name, regex, sort, reverse} = this.state;
    const keys = this.columnChoice.shown().map((column) => column.key);
    const columns = [...keys, ...this.needs].join(",");
    const found = await get(this.where(this.vhost()), {page, page_size: size, name,
      use_regex: regex, sort, sort_reverse: reverse, pagination: true, columns});
    return {rows: found.items, total: found.filtered_count, pages: found.page_count};
  }

  // Local lists

  async pick() {
    const {size, sort, reverse} = this.state;
    const rows = (await this.load(this.vhost())).filter(this.chosen());
    if (sort) rows.sort((one, other) => compare(descend(one, sort), descend(other, sort)));
    if (reverse) rows.reverse();
    const pages = Math.max(1, Math.ceil(rows.length / Number(size)));
    this.state.page = Math.min(this.state.page, pages);
    const start = (this.state.page - 1) * Number(size);
    return {rows: rows.slice(start, start + Number(size)), total: rows.length, pages};
  }

  chosen() {
    const {name, regex} = this.state;
    if (!name) return () => true;
    const texts = (row) => this.columns.map(({key}) => asText(descend(row, key)));
    const wanted = name.toLowerCase();
    if (!regex) return (row) => texts(row).some((text) => text.toLowerCase().includes(wanted));
    const pattern = new RegExp(name, "i");
    return (row) => texts(row).some((text) => pattern.test(text));
  }

  // Rendering

  drawHead() {
    const {sort, reverse} = this.state;
    render(this.head, this.columnChoice.shown().map((column) => {
      const isSorted = column.key === sort;
      const direction = isSorted ? (reverse ? "descending" : "ascending") : undefined;
      const next = isSorted ? !reverse : Boolean(column.number);
      const title = column.title || h("span", {class: "unseen"}, "Actions");
      const content = column.sortable === false ? title
        : button(title, () => this.change({sort: column.key, reverse: next, page: 1}));
      return h("th", {scope: "col", class: kindOf(column), "aria-sort": direction}, content);
    }));
  }

  cells(row) {
    return this.columnChoice.shown().map((column) => h("td", {class: kindOf(column)},
      column.cell ? column.cell(row) : asText(descend(row, column.key))));
  }

  drawPager(total, pages) {
    const {page} = this.state;
    const step = (to, text) =>
      button(text, () => this.change({page: to}), {disabled: to < 1 || to > pages});
    const steps = [step(page - 1, "Previous"), h("span", {}, `page ${page} of ${pages}`),
      step(page + 1, "Next")];
    render(this.pager, total > 0 && h("span", {}, `${plural(total, "row")} in total`),
      pages > 1 && steps);
  }
}

function kindOf({number, wide, minor, title}) {
  const kinds = [number && "number", wide && !number && "wide", minor && "minor",
    !title && "actions"];
  return kinds.filter(Boolean).join(" ") || undefined;
}

export const vhostOr = (all) => (vhost) => (vhost ? path(all, vhost) : all);

const descend = (row, key) => key.split(".").reduce((value, step) => value?.[step], row);

function asText(value) {
  if (value === undefined || value === null) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

// Numbers before texts before missing values.
function compare(one, other) {
  const missing = (value) => value === undefined || value === null;
  if (missing(one) || missing(other)) return missing(one) - missing(other);
  if (typeof one === "number" && typeof other === "number") return one - other;
  return asText(one).localeCompare(asText(other));
}
