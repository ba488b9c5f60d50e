// Who is logged in, for as long as the browser's tab is open, and what that user's tags allow.

import {ofTab} from "./store.js";

const KEY = "leveret.credentials";

// HTTP takes names, passwords and reasons as bytes; JavaScript's headers have one in each
// character.
export const asBytes = (text) =>
  Array.from(new TextEncoder().encode(text), (one) => String.fromCharCode(one)).join("");

export const session = {
  // {name, tags}, as /api/whoami tells it.
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

// What the API asks for: administrators may do all that monitors and policy makers may.
export const mayAdminister = () => hasOne("administrator");
export const mayMonitor = () => hasOne("administrator", "monitoring");
export const mayMakePolicies = () => hasOne("administrator", "policymaker");
