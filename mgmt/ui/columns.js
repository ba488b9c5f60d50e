// The choice of a list's columns, remembered in the browser by the list's caption. The first column
// and those without a title are always shown.

import {h, uniqueId} from "./dom.js";
import {ofBrowser} from "./store.js";

export class ColumnChoice {
  // columns: as in table.js; one with `isExtra` is hidden until the user chooses it. changed():
  // called after a change.
  constructor(caption, columns, changed) {
    Object.assign(this, {columns, changed, key: `leveret.columns.${caption}`});
    this.choices = JSON.parse(ofBrowser.get(this.key) ?? "{}");
    this.element = h("details", {class: "columns"}, h("summary", {}, "Columns"),
      h("div", {class: "popup", role: "group", "aria-label": `Columns of ${caption}`},
        this.optional().map((column) => this.box(column))));
    // The popup closes when the user goes on elsewhere.
    this.element.addEventListener("focusout", ({relatedTarget}) => {
      if (relatedTarget && !this.element.contains(relatedTarget)) this.element.open = false;
    });
  }

  optional() {
    return this.columns.slice(1).filter((column) => column.title);
  }

  isShown(column) {
    return this.choices[column.key] ?? !column.isExtra;
  }

  shown() {
    const optional = new Set(this.optional());
    return this.columns.filter((column) => !optional.has(column) || this.isShown(column));
  }

  box(column) {
    const box = h("input", {type: "checkbox", id: uniqueId("column"),
      checked: this.isShown(column), onchange: () => {
        this.choices[column.key] = box.checked;
        ofBrowser.set(this.key, JSON.stringify(this.choices));
        this.changed();
      }});
    return h("div", {class: "field inline"}, box, h("label", {for: box.id}, column.title));
  }
}
