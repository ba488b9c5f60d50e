// The shell: logging in, the navigation, the banner of alarms, and the beat at which pages update.

import {field, form, h, input, replace, select} from "./dom.js";
import {get, session} from "./api.js";
import {notice} from "./dialog.js";
import {current} from "./router.js";
import "./overview.js";
import "./clients.js";
import "./exchanges.js";
import "./queues.js";
import "./queue.js";
import "./graph.js";
import "./admin.js";

const INTERVALS = [["5", "every 5 s"], ["1", "every second"], ["30", "every 30 s"], ["0", "paused"]];
const PAGES = [
  ["", "Overview"], ["connections", "Connections"], ["channels", "Channels"], ["exchanges", "Exchanges"],
  ["queues", "Queues"], ["graph", "Bindings"], ["admin", "Admin"],
];

const main = document.getElementById("main");
const interval = document.getElementById("refresh");
let page = null;
let timer = null;
let user = null;

function applyTheme(theme) {
  document.documentElement.dataset.theme = theme;
  const button = document.getElementById("theme");
  button.textContent = theme === "dark" ? "Light" : "Dark";
  button.setAttribute("aria-label", theme === "dark" ? "Use light colours" : "Use dark colours");
}

function showLogin(problem) {
  document.getElementById("top").hidden = true;
  page = null;
  const name = input("name", {autocomplete: "username", required: true});
  const password = input("password", {type: "password", autocomplete: "current-password", required: true});
  replace(main, h("div", {class: "login panel"}, h("h1", {}, "Leveret"),
    problem ? h("p", {class: "bad", role: "alert"}, problem) : "",
    form("Log in", async (values) => {
      session.logIn(values.name, values.password);
      await begin();
    }, field("User name", name), field("Password", password))));
  document.title = "Log in – Leveret";
  name.focus();
}

async function begin() {
  try {
    user = await get("whoami");
  } catch (error) {
    session.logOut();
    showLogin(error.status === 401 ? error.message : `The node does not answer: ${error.message}`);
    return;
  }
  document.getElementById("top").hidden = false;
  document.getElementById("who").textContent = user.name;
  drawNavigation();
  await show();
}

function drawNavigation() {
  const may = user.tags.some((tag) => ["administrator", "policymaker", "monitoring"].includes(tag));
  replace(document.getElementById("nav"), PAGES.filter(([name]) => name !== "admin" || may).map(([name, title]) =>
    h("a", {href: `#/${name}`, "data-page": name}, title)));
}

function markPage(name) {
  for (const link of document.querySelectorAll("#nav a")) {
    if (link.dataset.page === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

async function show() {
  const found = current();
  if (!found) {
    replace(main, h("h1", {}, "There is no such page"), h("a", {href: "#/"}, "Overview"));
    return;
  }
  markPage(found.first);
  page = found.show(found.parameters, user);
  const shown = page;
  document.title = `${page.title} – Leveret`;
  replace(main, h("h1", {}, page.title), page.element);
  main.focus({preventScroll: true});
  window.scrollTo(0, 0);
  await update(shown);
}

async function update(shown) {
  clearTimeout(timer);
  if (!session.credentials) return;
  try {
    if (shown === page && shown?.refresh) await shown.refresh();
    await watchAlarms();
    main.removeAttribute("aria-busy");
  } catch (error) {
    if (error.status === 401 && error.message === "Login failed") {
      session.logOut();
      showLogin("You are logged out.");
      return;
    }
    if (shown === page) showProblem(shown, error);
  }
  const seconds = Number(interval.value);
  if (seconds && shown === page) timer = setTimeout(() => update(shown), seconds * 1000);
}

function showProblem(shown, error) {
  if (shown.problem === error.message) return;
  shown.problem = error.message;
  notice(error.message, true);
}

// A banner that cannot be missed, on every page, as long as an alarm or a partition lasts.
async function watchAlarms() {
  const banner = document.getElementById("alarm");
  const reasons = [];
  if (user.tags.some((tag) => ["administrator", "monitoring"].includes(tag))) {
    for (const node of await get("nodes", {columns: "name,mem_alarm,disk_free_alarm,partitions,mem_used,mem_limit"})) {
      if (node.mem_alarm) reasons.push(`${node.name} is low on memory: publishers are blocked`);
      if (node.disk_free_alarm) reasons.push(`${node.name} is low on disk: publishers are blocked`);
      if (node.partitions?.length) reasons.push(`${node.name} is cut off from ${node.partitions.join(", ")}`);
    }
  } else {
    const found = await get("health/checks/alarms");
    for (const alarm of found.alarms ?? []) reasons.push(`${alarm.node} is low on ${alarm.resource}: publishers are blocked`);
  }
  const text = reasons.join(". ");
  if (banner.textContent !== text) banner.textContent = text;
  banner.hidden = !reasons.length;
}

function start() {
  for (const option of select("x", INTERVALS).children) interval.append(option.cloneNode(true));
  interval.value = localStorage.getItem("leveret.refresh") ?? "5";
  interval.addEventListener("change", () => {
    localStorage.setItem("leveret.refresh", interval.value);
    update(page);
  });
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  applyTheme(localStorage.getItem("leveret.theme") ?? (dark ? "dark" : "light"));
  document.getElementById("theme").addEventListener("click", () => {
    const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    localStorage.setItem("leveret.theme", theme);
    applyTheme(theme);
  });
  document.getElementById("logout").addEventListener("click", () => {
    session.logOut();
    showLogin();
  });
  const menu = document.getElementById("menu");
  menu.addEventListener("click", () => {
    const open = document.getElementById("nav").classList.toggle("open");
    menu.setAttribute("aria-expanded", String(open));
  });
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  addEventListener("hashchange", () => {
    document.getElementById("nav").classList.remove("open");
    menu.setAttribute("aria-expanded", "false");
    if (session.credentials) show();
  });
  addEventListener("leveret:refresh", () => update(page));
  if (session.credentials) begin();
  else showLogin();
}

start();
