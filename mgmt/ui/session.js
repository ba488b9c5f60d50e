// The logged-in user, until the browser's tab is closed, and the permissions of the user's tags.

import {ofTab} from "./store.js";

const KEY = "leveret.credentials";

// HTTP transmits names, passwords and reasons as bytes; JavaScript's headers have one byte in each
// character.
export const asBytes = (text) =>
  Array.from(new TextEncoder().encode(text), (one) => String.fromCharCode(one)).join("");

export const session = {
  // {name, tags}, from /api/whoami.
  user: null,

  get credentials() {
    return ofTab.get(KEY);
  },

  logIn(name, password) {
    ofTab.set(KEY, btoa(asBytes(`${name}:${password}`)));
  },

  logOut() {
    ofTab.remove(KEY);
    this.user = null;
  },
};

const hasOne = (...tags) => tags.some((tag) => session.user?.tags.includes(tag));

// As in the API, administrators have the rights of monitoring and policymaker.
export const mayAdminister = () => hasOne("administrator");
export const mayMonitor = () => hasOne("administrator", "monitoring");
export const mayMakePolicies = () => hasOne("administrator", "policymaker");
