// The consumers of a queue.

import {get, path} from "../api.js";
import {h, panel} from "../dom.js";
import {consumerList} from "./consumers.js";

export function consumersPart(vhost, name) {
  const where = path("queues", vhost, name);
  const list = consumerList();
  return {element: h("div", {}, panel("Consumers", list.element)), async refresh() {
    const {consumer_details: found} = await get(where, {columns: "consumer_details"});
    await list.show(found);
  }};
}
