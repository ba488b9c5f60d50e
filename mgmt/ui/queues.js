// The list of queues, and adding one; what a declaration would come to is asked first.

import {path, post, put} from "./api.js";
import {attempt, notice} from "./dialog.js";
import {checkbox, field, form, h, panel, replace} from "./dom.js";
import {features} from "./exchanges.js";
import {bytes, count, details, duration} from "./format.js";
import {argumentsField, nameField, object, vhostChoice} from "./inputs.js";
import {route, to} from "./router.js";
import {List} from "./table.js";

route("queues", () => {
  const list = new List({
    caption: "Queues", where: "queues", key: (row) => `${row.vhost} ${row.name}`, empty: "There are no queues.",
    columns: [
      {key: "vhost", title: "Virtual host"},
      {key: "name", title: "Name", cell: (row) => h("a", {href: to("queues", row.vhost, row.name)}, row.name)},
      {key: "features", title: "Features", sortable: false, cell: features},
      {key: "state", title: "State", cell: (row) => h("span", {class: row.state === "running" ? "good" : "bad"}, row.state)},
      {key: "messages_ready", title: "Ready", number: true, cell: (row) => count(row.messages_ready)},
      {key: "messages_unacknowledged", title: "Unacked", number: true, cell: (row) => count(row.messages_unacknowledged)},
      {key: "messages", title: "Total", number: true, cell: (row) => count(row.messages)},
      {key: "oldest_ready_age_ms", title: "Oldest", number: true, cell: (row) => duration(row.oldest_ready_age_ms)},
      {key: "message_bytes", title: "Size", number: true, cell: (row) => bytes(row.message_bytes)},
      {key: "consumers", title: "Consumers", number: true, cell: (row) => count(row.consumers)},
      {key: "in", title: "In", number: true, sortable: false, cell: (row) => details(row.message_stats, "publish")},
      {key: "out", title: "Out", number: true, sortable: false, cell: (row) => details(row.message_stats, "deliver_get")},
    ],
  });
  return {title: "Queues", element: h("div", {}, h("section", {class: "panel"}, list.element),
    panel("Add a queue", addForm(list))), refresh: () => list.refresh()};
});

function addForm(list) {
  const outcome = h("div", {role: "status"});
  const body = (values) => ({durable: values.durable, auto_delete: values.auto_delete, arguments: object(values.arguments)});
  const element = form("Add queue", async (values, made) => {
    const done = await attempt(`Queue ${values.name} added`, () => put(path("queues", values.vhost, values.name), body(values)));
    if (done) {
      made.elements.name.value = "";
      replace(outcome);
      list.refresh();
    }
  }, h("div", {class: "fields"}, field("Virtual host", vhostChoice()), nameField()),
  h("div", {class: "row"}, checkbox("Durable", "durable", true), checkbox("Delete when unused", "auto_delete")), argumentsField(), outcome);
  const ask = h("button", {type: "button", onclick: async () => {
    const values = Object.fromEntries([...element.elements].filter((one) => one.name)
      .map((one) => [one.name, one.type === "checkbox" ? one.checked : one.value]));
    try {
      const plan = await post(`${path("queues", values.vhost, values.name)}/plan`, body(values));
      const text = {create: "A new queue would be made.", same: "There is such a queue already; nothing would change.",
        conflict: "It would be refused."}[plan.outcome];
      replace(outcome, h("p", {class: plan.outcome === "conflict" ? "bad" : "good"}, text, plan.reason ? ` ${plan.reason}` : ""),
        plan.differences.length ? h("ul", {}, plan.differences.map((one) =>
          h("li", {}, `${one.argument}: asked for ${JSON.stringify(one.received)}, is ${JSON.stringify(one.current)}`))) : "",
        plan.policy ? h("p", {}, `The policy ${plan.policy} would count.`) : "");
    } catch (error) {
      notice(error.message, true);
    }
  }}, "Ask first");
  element.append(" ", ask);
  return element;
}
