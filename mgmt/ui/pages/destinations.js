// Checks that a queue or exchange that the user has typed exists, before the user is asked whether
// messages shall go there.

import {get, path} from "../api.js";
import {DEFAULT, titleOf} from "../declared.js";

// Throws an Error unless there is such a queue, and it is not the messages' own.
export async function requireOtherQueue(vhost, name, own) {
  if (name === own) throw new Error("The destination must be another queue.");
  await requireObject("queue", vhost, name, name);
}

// name: may be empty, for the default exchange.
export const requireExchange = (vhost, name) =>
  requireObject("exchange", vhost, name || DEFAULT, titleOf(name));

async function requireObject(kind, vhost, name, title) {
  try {
    await get(path(`${kind}s`, vhost, name), {columns: "name"});
  } catch (error) {
    if (error.status !== 404) throw error;
    throw new Error(`There is no ${kind} '${title}' in virtual host '${vhost}'.`, {cause: error});
  }
}
