// Retrying, moving and deleting messages of a queue: single, selected or all matching ones.
//
// A choice of messages is {body, filter}: the body says to the API which ones they are, and filter
// is what the user asked for, as a text. The question repeats both the filter and the number.

import {get, path, post} from "../api.js";
import {confirm, notice, openForm, thisPage} from "../dialog.js";
import {h} from "../dom.js";
import {field, form, input} from "../forms.js";
import {plural} from "../format.js";
import {refreshNow} from "../live.js";
import {requireExchange, requireOtherQueue} from "./destinations.js";
import {edit} from "./edit.js";

const WORDS = {
  retry: ["Retry", "Retried", "They are published as listed here, and removed from this queue."],
  move: ["Move", "Moved", "They are removed from this queue."],
  delete: ["Delete", "Deleted", "They are deleted permanently."],
};

export class MessageActions {
  // whenDone(): called after an action, which may have failed.
  constructor(vhost, queue, whenDone) {
    Object.assign(this, {vhost, queue, whenDone});
    this.where = `${path("queues", vhost, queue)}/messages`;
  }

  // Asks the user, and acts. destination: the queue to move to.
  async act(action, choice, destination) {
    try {
      const count = await this.countOf(choice);
      if (!count) {
        notice(`No message of ${this.queue} matches.`, true);
        return;
      }
      const confirmed = await this.ask(action, choice, count, destination);
      if (!confirmed) return;
      await this.send(action, {...choice.body, ...destination && {destination}, ...confirmed});
    } catch (error) {
      notice(`Failed: ${error.message}`, true);
    }
  }

  async countOf({body}) {
    if (body.ids) return body.ids.length;
    return (await post(`${this.where}/count`, body)).matching;
  }

  // Returns what the request needs besides the choice, or null if the user does not confirm.
  async ask(action, {body, filter}, count, destination) {
    const [word, , consequence] = WORDS[action];
    const which = plural(count, "message");
    const of = `of queue ${this.queue}${filter ? ` that match: ${filter}` : ""}`;
    const into = destination ? ` Destination: ${destination}.` : "";
    const {shown, confirmed} = action === "retry" ? await this.targets(body)
      : {shown: [], confirmed: {}};
    const detail = `${body.all ? "All " : ""}${which} ${of}. ${consequence}${into}`;
    const isSure = await confirm(`${word} ${which}?`, detail, word, ...shown);
    return isSure ? confirmed : null;
  }

  // Returns whether all succeeded.
  async send(action, body) {
    const page = thisPage();
    let isDone = false;
    try {
      const outcome = await post(`${this.where}/${action}`, body);
      isDone = report(WORDS[action][1], outcome, page);
    } catch (error) {
      notice(`Failed: ${error.message}`, true, page);
    }
    await this.whenDone();
    refreshNow();
    return isDone;
  }

  // Where a retry would publish messages, to be confirmed: x-death, which says it, may be forged.
  async targets(body) {
    const {targets, has_more: hasMore} = await post(`${this.where}/targets`, body);
    const list = h("ul", {"aria-label": "Targets"}, targets.map(({messages, ...target}) =>
      h("li", {}, `${plural(messages, "message")} to ${describe(target)}`)));
    const note = hasMore && h("p", {}, "Messages with more targets than these stay in the queue.");
    return {shown: [list, note || ""], confirmed: {targets}};
  }

  askWhere(choice) {
    const dialog = openForm("Move to queue", form("Continue", async ({destination}) => {
      await requireOtherQueue(this.vhost, destination, this.queue);
      dialog.close();
      await this.act("move", choice, destination);
    }, field("Queue", input("destination", {required: true}))));
  }

  async edit(message) {
    try {
      // Editing needs the complete payload: a truncated one would be published as it is.
      const {messages: [whole]} = await get(this.where,
        {position: message.id, count: 1, truncate: message.payload_bytes});
      if (whole?.id !== message.id) {
        throw new Error("The message is no longer in the queue: search again.");
      }
      const {targets: [target]} = await post(`${this.where}/targets`, {ids: [whole.id]});
      edit(whole, target, async (body) => {
        await requireExchange(this.vhost, body.to.exchange);
        return this.send("retry", body);
      });
    } catch (error) {
      notice(error.message, true);
    }
  }
}

function describe({exchange, routing_keys: keys}) {
  return `exchange ${exchange || "(default)"} with routing key ${keys.join(", ")}`;
}

// Reports the result; returns whether all succeeded.
function report(did, {done, failed}, page) {
  if (!failed.length) {
    notice(`${did} ${plural(done, "message")}`, false, page);
    return true;
  }
  const reasons = [...new Set(failed.map((one) => one.reason))].join("; ");
  const failures = `${plural(failed.length, "message")} failed: ${reasons}`;
  notice(`${did} ${plural(done, "message")}; ${failures}`, true, page);
  return false;
}
