// The list of exchanges, and adding one.

import {get, path, put} from "../api.js";
import {FEATURES, addPlan, exchangeLink, shortTags} from "../declared.js";
import {notice} from "../dialog.js";
import {fold, h} from "../dom.js";
import {changing, checkbox, field, fields, nameField, object, objectField, row, select, vhostField}
  from "../forms.js";
import {details} from "../format.js";
import {route} from "../router.js";
import {List, vhostOr} from "../table.js";

const ARGUMENTS = {"alternate-exchange": "unrouted", "x-cache-size": 100000,
  "x-cache-ttl": 3600000, "x-cache-persistence": "disk"};
const DELAYED = "x-delayed-message";
const DEDUPLICATING = "x-message-deduplication";
const WAITING = [["", "the publisher's node (classic)"], ["quorum", "several nodes (quorum)"]];

route("exchanges", () => {
  const list = new List({
    caption: "Exchanges", where: vhostOr("exchanges"), vhosts: true,
    key: (one) => `${one.vhost}\n${one.name}`, needs: FEATURES,
    columns: [
      {key: "name", title: "Name", cell: (one) => exchangeLink(one.vhost, one.name)},
      {key: "vhost", title: "Virtual host", minor: true},
      {key: "type", title: "Type"},
      {key: "features", title: "Features", sortable: false, minor: true, cell: shortTags},
      {key: "message_stats.publish_in_details.rate", title: "Message rate in", number: true,
        cell: (one) => details(one.message_stats, "publish_in")},
      {key: "message_stats.publish_out_details.rate", title: "Message rate out", number: true,
        cell: (one) => details(one.message_stats, "publish_out")},
    ],
  });
  return {title: "Exchanges", refresh: () => list.refresh(),
    element: h("div", {}, h("section", {class: "panel"}, list.element),
      fold("Add a new exchange", addForm(list)))};
});

const bodyOf = (values) => ({type: values.type, durable: values.durable,
  auto_delete: values.auto_delete, internal: values.internal,
  arguments: {...delayedArguments(values), ...object(values.arguments)}});

function delayedArguments({type, delayed_type: delayedType, delayed_queue_type: queueType}) {
  if (type !== DELAYED) return {};
  return {"x-delayed-type": delayedType, ...queueType && {"x-delayed-queue-type": queueType}};
}

function addForm(list) {
  const element = changing("Add exchange", {
    done: (values) => `Exchange ${values.name} added`,
    work: (values) => put(path("exchanges", values.vhost, values.name), bodyOf(values)),
    after: () => list.refresh(),
  }, fields(vhostField(), nameField(), ...typeFields()),
  row(checkbox("Durable", "durable", true), checkbox("Auto delete", "auto_delete"),
    checkbox("Internal", "internal")),
  objectField("Arguments", "arguments", ARGUMENTS));
  return addPlan(element, "exchanges", bodyOf);
}

// The exchange types of this node, and the fields of one that delays messages.
function typeFields() {
  const type = select("type", []);
  const inner = select("delayed_type", []);
  const delayed = [field("Type after the delay", inner),
    field("Messages wait on", select("delayed_queue_type", WAITING))];
  const show = () => delayed.forEach((one) => { one.hidden = type.value !== DELAYED; });
  const options = (types) => types.map(({name, description}) =>
    h("option", {value: name, title: description}, name));
  get("overview", {columns: "exchange_types"}).then(({exchange_types: types}) => {
    type.append(...options(types));
    inner.append(...options(types.filter(({name}) => ![DELAYED, DEDUPLICATING].includes(name))));
    type.form.addEventListener("reset", () => setTimeout(show));
    show();
  }, (error) => notice(`Cannot load the exchange types: ${error.message}`, true));
  type.addEventListener("change", show);
  show();
  return [field("Type", type), ...delayed];
}
