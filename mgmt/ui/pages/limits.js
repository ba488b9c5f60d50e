// Limits of virtual hosts and users.

import {del, get, path, put} from "../api.js";
import {panel} from "../dom.js";
import {changing, field, fields, input, select, vhostField} from "../forms.js";
import {count} from "../format.js";
import {refreshNow} from "../live.js";
import {mayAdminister, mayMonitor} from "../session.js";
import {List, vhostOr} from "../table.js";
import {administration, removal} from "./administration.js";

const KINDS = {
  vhost: {title: "Virtual host limits", of: "Virtual host",
    names: ["max-connections", "max-queues"]},
  user: {title: "User limits", of: "User", names: ["max-connections", "max-channels"]},
};

administration("limits", () => {
  const kinds = mayMonitor() ? ["vhost", "user"] : ["vhost"];
  const lists = kinds.map(limitList);
  return {title: "Limits", lists, panels: kinds.map((kind, place) =>
    panel(KINDS[kind].title, lists[place].element, mayAdminister() ? setForm(kind) : ""))};
});

function limitList(kind) {
  const {title, of} = KINDS[kind];
  const columns = [
    {key: "of", title: of}, {key: "name", title: "Limit"},
    {key: "value", title: "Value", number: true, cell: (row) => count(row.value)},
    removal({text: "Clear", label: (row) => `Clear ${row.name} of ${row.of}`, done: "Limit cleared",
      detail: (row) => `The limit ${row.name} of ${row.of} will be removed.`, may: mayAdminister,
      work: (row) => del(path(`${kind}-limits`, row.of, row.name))}),
  ];
  const isOfVhosts = kind === "vhost";
  const load = async (vhost) => (await get(vhostOr(`${kind}-limits`)(vhost))).flatMap((row) =>
    Object.entries(row.value).map(([name, value]) => ({of: row[kind], name, value})));
  return new List({id: kind, caption: title, small: true, columns,
    vhosts: isOfVhosts, load, key: (row) => `${row.of}\n${row.name}`, empty: "No limits."});
}

function setForm(kind) {
  const of = kind === "vhost" ? vhostField() : field("User", input("user", {required: true}));
  return changing("Set limit", {
    done: () => "Limit set", after: refreshNow,
    work: (values) => put(path(`${kind}-limits`, values[kind], values.name),
      {value: Number(values.value)}),
  }, fields(of, field("Limit", select("name", KINDS[kind].names)),
    field("Value", input("value", {type: "number", required: true}), "-1: no limit")));
}
