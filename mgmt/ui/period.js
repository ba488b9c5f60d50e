// The time range of a page's charts, as a choice that is part of the address.
//
// Ranges are as long as the node keeps samples: for the node and virtual hosts a day, for all other
// objects an hour (`sample_retention_policies` of the API).

import {uniqueId} from "./dom.js";
import {field, select} from "./forms.js";
import {query, setQuery} from "./router.js";

const SHORT = [["60", "last minute"], ["600", "last ten minutes"], ["3600", "last hour"]];
const LONG = [...SHORT, ["28800", "last eight hours"], ["86400", "last day"]];
const STEPS = {60: 5, 600: 5, 3600: 60, 28800: 600, 86400: 1800};
const FIRST = SHORT[0][0];

export class Period {
  // again(): called after another range was chosen. isLong: samples are kept for a day.
  constructor(again, isLong = false) {
    this.choice = select("age", isLong ? LONG : SHORT, query().age ?? FIRST);
    this.choice.id = uniqueId("age");
    this.choice.onchange = () => {
      setQuery({age: this.choice.value === FIRST ? "" : this.choice.value});
      again();
    };
    this.element = field("Chart range", this.choice);
    this.element.classList.add("inline");
  }

  // The query for the API. kinds: of lengths, msg_rates, data_rates, node_stats.
  query(...kinds) {
    const age = this.choice.value;
    return Object.fromEntries(kinds.flatMap((kind) =>
      [[`${kind}_age`, age], [`${kind}_incr`, STEPS[age]]]));
  }
}
