// Lists that sort, filter, page and update by themselves.
//
// A column is {key, title, number, cell(row)}; `sortable: false` takes the sorting away. A remote list
// asks the API for a page at a time; a local one has all rows and does it here. Rows are patched by
// their keys, so that focus, selection and scrolling stay where they are. What is chosen stands in the
// address, so that it can be shared.

import {add, h, input, replace, select, uniqueId} from "./dom.js";
import {get} from "./api.js";
import {query, setQuery} from "./router.js";

const SIZES = ["25", "100", "500"];

export class List {
  // load: for a local list, gives all rows. where: for a remote one, the path of the API.
  constructor({caption, columns, key, where, load, sort, empty = "There is nothing here."}) {
    Object.assign(this, {caption, columns, key, where, load, empty});
    const asked = query();
    this.state = {
      page: Number(asked.page ?? 1), size: asked.size ?? "100", name: asked.name ?? "",
      regex: asked.regex === "true", sort: asked.sort ?? sort ?? "", reverse: asked.reverse === "true",
    };
    this.rows = new Map();
    this.element = this.build();
  }

  build() {
    const name = input("name", {type: "search", value: this.state.name, id: uniqueId("filter"),
      oninput: () => this.change({name: name.value, page: 1})});
    const regex = h("input", {type: "checkbox", id: uniqueId("regex"), checked: this.state.regex,
      onchange: () => this.change({regex: regex.checked, page: 1})});
    const size = select("size", SIZES, this.state.size);
    size.id = uniqueId("size");
    size.addEventListener("change", () => this.change({size: size.value, page: 1}));
    this.head = h("tr");
    this.body = h("tbody");
    this.pager = h("div", {class: "pager"});
    this.message = h("p", {class: "quiet"});
    return h("div", {},
      h("div", {class: "filters", role: "search"},
        h("label", {for: name.id}, "Filter"), name,
        h("span", {}, regex, " ", h("label", {for: regex.id}, "regular expression")),
        h("label", {for: size.id}, "Rows"), size),
      h("div", {class: "scroll"},
        h("table", {}, h("caption", {class: "visually-hidden"}, this.caption), h("thead", {}, this.head), this.body)),
      this.message, this.pager);
  }

  change(values) {
    Object.assign(this.state, values);
    const {page, size, name, regex, sort, reverse} = this.state;
    setQuery({page: page > 1 ? page : "", size: size === "100" ? "" : size, name,
      regex: regex ? "true" : "", sort, reverse: reverse ? "true" : ""});
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.refresh().catch((error) => this.fail(error)), 150);
  }

  fail(error) {
    replace(this.message, error.message);
  }

  drawHead() {
    replace(this.head, this.columns.map((column) => {
      const sorted = column.key === this.state.sort;
      const direction = sorted ? (this.state.reverse ? "descending" : "ascending") : undefined;
      const title = column.sortable === false ? column.title : h("button", {type: "button",
        onclick: () => this.change({sort: column.key, reverse: sorted ? !this.state.reverse : Boolean(column.number)})},
        column.title);
      return h("th", {scope: "col", class: column.number ? "number" : undefined, "aria-sort": direction}, title);
    }));
  }

  async refresh() {
    const {rows, total, pages} = await (this.where ? this.ask() : this.pick());
    // The head stays as it is while a button in it has the focus.
    if (!this.head.contains(document.activeElement) || this.drawn !== JSON.stringify(this.state)) {
      const focused = [...this.head.children].findIndex((cell) => cell.contains(document.activeElement));
      this.drawHead();
      this.drawn = JSON.stringify(this.state);
      if (focused >= 0) this.head.children[focused].querySelector("button")?.focus();
    }
    this.patch(rows);
    replace(this.message, rows.length ? "" : this.empty);
    this.drawPager(total, pages);
  }

  async ask() {
    const {page, size, name, regex, sort, reverse} = this.state;
    const found = await get(this.where, {page, page_size: size, name, use_regex: regex, sort, sort_reverse: reverse,
      pagination: true});
    return {rows: found.items, total: found.filtered_count, pages: found.page_count};
  }

  async pick() {
    const {page, size, name, regex, sort, reverse} = this.state;
    let rows = await this.load();
    if (name) {
      const pattern = regex ? new RegExp(name, "i") : null;
      const folded = name.toLowerCase();
      rows = rows.filter((row) => {
        const text = JSON.stringify(row);
        return pattern ? pattern.test(text) : text.toLowerCase().includes(folded);
      });
    }
    if (sort) {
      rows = [...rows].sort((one, other) => compare(one[sort], other[sort]));
      if (reverse) rows.reverse();
    }
    const start = (page - 1) * Number(size);
    return {rows: rows.slice(start, start + Number(size)), total: rows.length,
      pages: Math.max(1, Math.ceil(rows.length / Number(size)))};
  }

  patch(rows) {
    const kept = new Map();
    let before = this.body.firstChild;
    for (const row of rows) {
      const key = this.key(row);
      const text = JSON.stringify(row);
      let known = this.rows.get(key);
      if (!known) known = {element: h("tr"), text: ""};
      if (known.text !== text) {
        if (!known.element.contains(document.activeElement)) {
          replace(known.element, this.cells(row));
          known.text = text;
        }
      }
      if (known.element === before) before = before.nextSibling;
      else this.body.insertBefore(known.element, before);
      kept.set(key, known);
    }
    for (const [key, known] of this.rows) if (!kept.has(key)) known.element.remove();
    this.rows = kept;
  }

  cells(row) {
    return this.columns.map((column) => {
      const cell = h("td", {class: column.number ? "number" : undefined});
      add(cell, [column.cell ? column.cell(row) : row[column.key]]);
      return cell;
    });
  }

  drawPager(total, pages) {
    const {page} = this.state;
    const drawn = `${total} ${pages} ${page}`;
    if (this.pagerDrawn === drawn) return;
    this.pagerDrawn = drawn;
    const step = (to, text) => h("button", {type: "button", disabled: to < 1 || to > pages,
      onclick: () => this.change({page: to})}, text);
    replace(this.pager, `${total} in all`, pages > 1 ? [step(page - 1, "Previous"), `page ${page} of ${pages}`,
      step(page + 1, "Next")] : "");
  }
}

function compare(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one ?? "").localeCompare(String(other ?? ""));
}
