// The frame of all pages: the login, the navigation, and the page of the current address.

import {ApiError, get} from "./api.js";
import {clearNotices} from "./dialog.js";
import {h, replace} from "./dom.js";
import {field, form, input} from "./forms.js";
import {beginUpdates, keepUpdating} from "./live.js";
import {current, wasSent} from "./router.js";
import {session, watchOtherTabs} from "./session.js";
import {loadPluginPages, pluginPages} from "./plugin_pages.js";
import {beginTheme} from "./theme.js";
import {VhostChoice} from "./vhost_choice.js";
import {unwatch, watch} from "./alarms.js";
import "./pages/overview.js";
import "./pages/connections.js";
import "./pages/channels.js";
import "./pages/exchanges.js";
import "./pages/exchange.js";
import "./pages/queues.js";
import "./pages/queue.js";
import "./pages/stream_clients.js";
import "./pages/super_streams.js";
import "./pages/graph.js";
import "./pages/node.js";
import {mayUseAdministration} from "./pages/administration.js";
import "./pages/users.js";
import "./pages/user.js";
import "./pages/vhosts.js";
import "./pages/policies.js";
import "./pages/limits.js";
import "./pages/features.js";
import "./pages/audit.js";
import "./pages/mqtt.js";
import "./pages/shovels.js";
import "./pages/standby.js";
import "./pages/federation.js";
import "./pages/federation_upstream_sets.js";
import "./pages/federation_upstreams.js";
import "./pages/trace_findings.js";
import "./pages/traces.js";

const PAGES = [
  ["", "Overview"], ["connections", "Connections"], ["channels", "Channels"],
  ["exchanges", "Exchanges"], ["queues", "Queues"], ["stream", "Streams"],
  ["graph", "Bindings"], ["admin", "Admin"],
];

const part = (id) => document.getElementById(id);

const vhostChoice = new VhostChoice(part("vhost"), show);

// Login and logout

function showLogin(problem) {
  session.logOut();
  keepUpdating(null);
  unwatch();
  part("top").hidden = true;
  document.title = "Login – Leveret";
  const name = input("name", {autocomplete: "username", required: true});
  const password = input("password",
    {type: "password", autocomplete: "current-password", required: true});
  replace(part("main"), h("div", {class: "login panel"},
    h("img", {src: "ui/mark.svg", alt: "", width: 56, height: 56}), h("h1", {}, "Leveret"),
    problem ? h("p", {class: "bad", role: "alert"}, problem) : "",
    form("Login", async (values) => {
      session.logIn(values.name, values.password);
      await begin();
    }, field("Username", name), field("Password", password))));
  name.focus();
}

async function begin() {
  try {
    session.accepted(await get("whoami"));
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    showLogin(error.status === 401 ? error.message : `Login failed: ${error.message}`);
    return;
  }
  part("top").hidden = false;
  part("who").textContent = `User ${session.user.name}`;
  await loadPluginPages();
  drawNavigation();
  // Lists show the nodes of their objects if there are several.
  await watch();
  // A choice that this user does not have must not be in the address of the first page.
  await vhostChoice.refresh();
  await show();
}

// Navigation

function drawNavigation() {
  const shown = [...PAGES, ...pluginPages]
    .filter(([name]) => name !== "admin" || mayUseAdministration());
  replace(part("nav"), shown.map(([name, title]) =>
    h("a", {href: `#/${name}`, "data-page": name}, title)));
}

function markPage(name) {
  for (const link of part("nav").children) {
    if (link.dataset.page === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

async function show() {
  const found = current();
  markPage(found?.first);
  const page = found ? found.show(found.parameters) : missing();
  document.title = `${page.title} – Leveret`;
  const heading = h("h1", {tabindex: -1}, page.title);
  replace(part("main"), heading, page.element);
  // Screen readers announce the new page, and Tab continues from there.
  heading.focus({preventScroll: true});
  window.scrollTo(0, 0);
  await Promise.all([keepUpdating(page), vhostChoice.refresh()]);
}

function missing() {
  const overview = h("a", {href: "#/"}, "Go to the overview");
  return {title: "Page not found", element: h("p", {}, overview)};
}

function toggleMenu(isOpen) {
  part("nav").classList.toggle("open", isOpen);
  part("menu").setAttribute("aria-expanded", String(isOpen));
}

function start() {
  beginTheme(part("theme"));
  beginUpdates(part("refresh"), showLogin);
  part("logout").onclick = () => showLogin();
  part("menu").onclick = () => toggleMenu(!part("nav").classList.contains("open"));
  document.querySelector(".skip").onclick = (event) => {
    event.preventDefault();
    part("main").focus();
  };
  addEventListener("hashchange", () => {
    toggleMenu(false);
    if (!wasSent()) clearNotices();
    if (session.user) show();
  });
  watchOtherTabs(beginOrAsk);
  beginOrAsk();
}

// The address stays as it is, so that the login leads to the page that was asked for.
function beginOrAsk() {
  if (session.credentials) begin();
  else showLogin();
}

start();
