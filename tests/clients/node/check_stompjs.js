/* Connects with @stomp/stompjs over a WebSocket, and prints what it sees as JSON. */
const { Client } = require("@stomp/stompjs");
Object.assign(global, { WebSocket: require("ws") });

const [brokerURL] = process.argv.slice(2);
const seen = { received: [] };

function finish() {
  console.log(JSON.stringify(seen));
  process.exit(0);
}

const client = new Client({
  brokerURL,
  connectHeaders: { login: "guest", passcode: "guest", host: "/" },
  heartbeatIncoming: 5000,
  heartbeatOutgoing: 5000,
  reconnectDelay: 0,
  onStompError: (frame) => {
    console.error(frame.headers.message, frame.body);
    process.exit(1);
  },
  onConnect: (frame) => {
    seen.version = frame.headers.version;
    seen.heartBeat = frame.headers["heart-beat"];
    client.subscribe("/queue/of-stompjs", onMessage, { ack: "client-individual" });
    client.watchForReceipt("sent", () => (seen.receipt = true));
    client.publish({
      destination: "/queue/of-stompjs",
      body: "héllo",
      headers: { "x-own": "a:b", receipt: "sent" },
    });
    client.publish({
      destination: "/queue/of-stompjs",
      binaryBody: new Uint8Array([0, 255]),
      headers: { "content-type": "application/octet-stream" },
    });
  },
});

function onMessage(message) {
  seen.received.push({ own: message.headers["x-own"] ?? null, body: [...message.binaryBody] });
  message.ack();
  if (seen.received.length === 2) {
    client.onWebSocketClose = (event) => {
      seen.close = [event.code, event.reason, event.wasClean];
      finish();
    };
    client.deactivate();
  }
}

client.activate();
