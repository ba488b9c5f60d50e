// Does with amqplib what programs do with it, and prints as JSON what came of it.
// Usage: NODE_PATH=<where amqplib is> node check.js amqp://...

const amqp = require("amqplib");

const delivered = (channel, queue, options) =>
  new Promise((resolve, reject) =>
    channel.consume(queue, resolve, options).catch(reject));

async function main(url) {
  const seen = {};
  const connection = await amqp.connect(url);
  seen.product = connection.connection.serverProperties.product;
  const channel = await connection.createConfirmChannel();

  await channel.assertExchange("orders", "topic", { durable: true });
  await channel.assertQueue("dead");
  await channel.assertQueue("q", { durable: true, deadLetterExchange: "", deadLetterRoutingKey: "dead" });
  await channel.bindQueue("q", "orders", "orders.*");
  await channel.prefetch(1);

  const properties = { persistent: true, contentType: "text/plain", headers: { n: 1, deep: { a: [1, "b", true] } } };
  channel.publish("orders", "orders.new", Buffer.from("hello"), properties);
  await channel.waitForConfirms();

  const first = await delivered(channel, "q", { consumerTag: "reader" });
  seen.consumed = {
    body: first.content.toString(),
    routingKey: first.fields.routingKey,
    redelivered: first.fields.redelivered,
    headers: first.properties.headers,
    contentType: first.properties.contentType,
  };
  await channel.cancel("reader");

  channel.nack(first);
  const again = await channel.get("q");
  seen.redelivered = again.fields.redelivered;
  channel.nack(again, false, false);
  const dead = await delivered(channel, "dead", {});
  seen.deadLettered = dead.properties.headers["x-death"][0].reason;
  channel.ack(dead);
  seen.empty = await channel.get("q");

  const returned = new Promise((resolve) => channel.once("return", resolve));
  channel.publish("orders", "nowhere", Buffer.from("lost"), { mandatory: true });
  seen.returned = (await returned).fields.replyText;
  await channel.waitForConfirms();

  const failing = await connection.createChannel();
  failing.on("error", () => {});
  seen.error = await failing.checkQueue("none").catch((error) => error.message);

  seen.messages = (await channel.deleteQueue("q")).messageCount;
  await channel.close();
  await connection.close();
  console.log(JSON.stringify(seen));
}

main(process.argv[2]).catch((error) => {
  console.error(error);
  process.exit(1);
});
