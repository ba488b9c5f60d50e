// Federation links: what each connects, whether it runs, why not, and restarting one.

import {del, get, path} from "../api.js";
import {nodeColumn} from "../cluster.js";
import {exchangeLink, queueLink} from "../declared.js";
import {attempt} from "../dialog.js";
import {code, h, panel} from "../dom.js";
import {button} from "../forms.js";
import {details} from "../format.js";
import {refreshNow} from "../live.js";
import {to} from "../router.js";
import {mayMakePolicies} from "../session.js";
import {List, vhostOr} from "../table.js";
import {administration} from "./administration.js";

const KINDS = {running: "good", error: "bad"};

administration("federation", () => {
  const links = new List({
    id: "links", caption: "All links", vhosts: true, empty: "No links.",
    load: (vhost) => get(vhostOr("federation-links")(vhost)),
    key: (row) => `${row.node}\n${row.id}`,
    columns: [
      {key: "upstream", title: "Upstream", cell: upstreamOf},
      {key: "uri", title: "URI", wide: true, cell: (row) => code(row.uri)},
      {key: "vhost", title: "Virtual host", minor: true},
      {key: "type", title: "Exchange / queue", cell: federatedOf},
      nodeColumn,
      {key: "status", title: "State", cell: (row) =>
        h("span", {class: KINDS[row.status]}, row.status)},
      {key: "error", title: "Reason", wide: true, cell: (row) => row.error ?? ""},
      {key: "local_channel.message_stats.publish_details.rate", title: "Inbound", number: true,
        cell: (row) => (row.local_channel
          ? details(row.local_channel.message_stats, "publish") : "")},
      {key: "timestamp", title: "Since"},
      {key: "id", title: "ID", isExtra: true},
      {key: "consumer_tag", title: "Consumer tag", isExtra: true},
      {key: "local_connection", title: "Local connection", isExtra: true, cell: connectionOf},
      ...(mayMakePolicies() ? [restarting] : []),
    ],
  });
  return {title: "Federation status", lists: [links],
    panels: [panel("All links", links.element), explanation()]};
});

const nameThere = (row) => row.upstream_exchange ?? row.upstream_queue;
const nameHere = (row) => row.exchange ?? row.queue;

// The name there is that of here unless the upstream says another one.
const upstreamOf = (row) => [row.upstream, nameThere(row) === nameHere(row) ? ""
  : h("span", {class: "quiet"}, ` ${row.type} ${nameThere(row)}`)];

const federatedOf = (row) => [row.type, " ", row.type === "exchange"
  ? exchangeLink(row.vhost, row.exchange) : queueLink(row.vhost, row.queue)];

const connectionOf = (row) => row.local_connection
  && h("a", {href: to("connections", row.local_connection)}, row.local_connection);

const restarting = {key: "restart", title: "", sortable: false, cell: (row) =>
  button("Restart", () => attempt("Link restarted", async () => {
    await del(path("federation-links", "vhost", row.vhost, row.id, row.node, "restart"));
    await refreshNow();
  }), {"aria-label": `Restart the link of ${row.type} ${nameHere(row)} to ${row.upstream}`})};

function explanation() {
  const upstreams = mayMakePolicies()
    ? h("a", {href: to("admin", "federation-upstreams")}, "upstreams") : "upstreams";
  return h("p", {class: "quiet"}, "Each exchange and queue that a policy federates has a link to "
    + "each of its ", upstreams, ". A link that has failed begins again after its pause.");
}
