// The logged-in user, and the permissions of the user's tags.
//
// The login is kept in the browser for all its tabs, until the user logs out in one of them, or for
// as long as the node's management.login_session_timeout says. It is kept after the node has
// accepted it, so that a wrong password in one tab does not end the login of the others.

import {ofBrowser} from "./store.js";

// Nodes behind one proxy have a path each.
const KEY = `leveret.login ${new URL(".", document.baseURI).pathname}`;
// Minutes, as in RabbitMQ.
const SESSION_MINUTES = 480;
const MINUTE_MS = 60_000;

// HTTP transmits names, passwords and reasons as bytes; JavaScript's headers have one byte in each
// character.
export const asBytes = (text) =>
  Array.from(new TextEncoder().encode(text), (one) => String.fromCharCode(one)).join("");

// Of a login that the node has not accepted yet.
let candidate = null;

// {credentials, until}, in milliseconds since 1970; null if there is none.
function kept() {
  const login = JSON.parse(ofBrowser.get(KEY) ?? "null");
  return login && login.until > Date.now() ? login : null;
}

export const session = {
  // {name, tags}, from /api/whoami.
  user: null,

  get credentials() {
    return candidate ?? kept()?.credentials ?? null;
  },

  logIn(name, password) {
    candidate = btoa(asBytes(`${name}:${password}`));
  },

  // user: what the node answered to the login.
  accepted(user) {
    this.user = user;
    if (!candidate) return;
    const minutes = user.login_session_timeout ?? SESSION_MINUTES;
    ofBrowser.set(KEY, JSON.stringify({
      credentials: candidate, until: Date.now() + minutes * MINUTE_MS}));
    candidate = null;
  },

  logOut() {
    candidate = null;
    ofBrowser.remove(KEY);
    this.user = null;
  },
};

// changed(): called when the user has logged in or out in another tab.
export function watchOtherTabs(changed) {
  addEventListener("storage", (event) => {
    if (event.key === KEY || event.key === null) changed();
  });
}

const hasOne = (...tags) => tags.some((tag) => session.user?.tags.includes(tag));

// As in the API, administrators have the rights of monitoring and policymaker.
export const mayAdminister = () => hasOne("administrator");
export const mayMonitor = () => hasOne("administrator", "monitoring");
export const mayMakePolicies = () => hasOne("administrator", "policymaker");
