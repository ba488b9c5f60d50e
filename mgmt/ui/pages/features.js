// RabbitMQ's feature flags and their state on this node.

import {get} from "../api.js";
import {h} from "../dom.js";
import {List} from "../table.js";
import {administration, plainPanel} from "./administration.js";

administration("features", () => {
  const list = new List({caption: "Feature flags", load: () => get("feature-flags"),
    key: (row) => row.name, columns: [
      {key: "name", title: "Name"},
      {key: "state", title: "State", cell: (row) =>
        h("span", {class: `state ${row.state === "enabled" ? "good" : ""}`}, row.state)},
      {key: "stability", title: "Stability"}, {key: "desc", title: "Description"}]});
  return {title: "Feature flags", lists: [list],
    panels: [plainPanel("Feature flags", list.element)]};
});
